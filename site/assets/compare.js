// Opens the page of two chosen runs, where there is one. Every such page has a link on this site's pages already.
(function () {
  "use strict";
  var group = document.querySelector("[data-compare]");
  if (!group) { return; }
  var choose = group.querySelectorAll("select"), said = group.querySelector("[role=status]");
  var before = function (older, newer) { return older.dataset.newer.split(" ").indexOf(newer.value) >= 0; };
  var open = function (older, newer) {
    window.location.href = group.dataset.compare + older.value + "-" + newer.value + "/index.html";
  };
  group.hidden = false;
  group.querySelector("button").addEventListener("click", function () {
    var one = choose[0].selectedOptions[0], other = choose[1].selectedOptions[0];
    if (before(one, other)) { open(one, other); return; }
    if (before(other, one)) { open(other, one); return; }
    said.textContent = one.value === other.value ? "Choose two different runs."
      : "These two share no experiment, or are too far apart to have a page.";
  });
})();
