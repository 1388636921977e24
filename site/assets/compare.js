// Opens the page of two chosen runs. The second list offers those that share an experiment with the first.
(function () {
  "use strict";
  var group = document.querySelector("[data-compare]");
  if (!group) { return; }
  var one = group.querySelectorAll("select")[0], other = group.querySelectorAll("select")[1];
  var leads = function (older, newer) { return older.dataset.newer.split(" ").indexOf(newer.value) >= 0; };
  var offer = function () {
    var chosen = one.selectedOptions[0], all = Array.prototype.slice.call(other.options);
    all.forEach(function (each) { each.disabled = !leads(chosen, each) && !leads(each, chosen); });
    if (other.selectedOptions[0].disabled) { other.value = all.find(function (each) { return !each.disabled; }).value; }
  };
  one.addEventListener("change", offer);
  group.querySelector("button").addEventListener("click", function () {
    var first = one.selectedOptions[0], second = other.selectedOptions[0], older = leads(first, second);
    window.location.href = group.dataset.compare + (older ? one : other).value + "-" + (older ? other : one).value + "/index.html";
  });
  group.hidden = false;
  offer();
})();
