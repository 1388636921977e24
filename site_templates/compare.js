// Opens the page of two chosen runs, where there is one. All pairs are links on the page already.
(function () {
  "use strict";
  var group = document.querySelector("[data-compare]");
  if (!group) { return; }
  var choose = group.querySelectorAll("select"), said = group.querySelector("[role=status]");
  group.hidden = false;
  group.querySelector("button").addEventListener("click", function () {
    var one = choose[0].value, other = choose[1].value;
    var link = document.querySelector("[data-pair='" + one + "-" + other + "'], [data-pair='" + other + "-" + one + "']");
    if (link) { window.location.href = link.href; return; }
    said.textContent = one === other ? "Choose two different runs." : "These two share no experiment, or are too far apart to have a page.";
  });
})();
