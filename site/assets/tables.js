// Sorts long tables by a click on a heading, and narrows them by words. Pages are complete without it.
(function () {
  "use strict";
  function value(row, at) {
    var cell = row.cells[at], datum = cell.querySelector("data"), text = cell.textContent.trim();
    var number = parseFloat(datum ? datum.value : text);
    return isNaN(number) ? text.toLowerCase() : number;
  }
  document.querySelectorAll("main table:not(.grid, .experiments)").forEach(table => {
    var body = table.tBodies[0], head = table.tHead && table.tHead.rows[0], rows = body ? [...body.rows] : [];
    if (!head || table.tBodies.length > 1 || rows.length < 6) { return; }
    if (!rows.every(row => row.cells.length === head.cells.length)) { return; }
    [...head.cells].forEach((cell, at) => {
      if (!cell.textContent.trim() || cell.querySelector("a, button")) { return; }
      var button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...cell.childNodes);
      cell.append(button);
      button.addEventListener("click", () => {
        var up = cell.getAttribute("aria-sort") !== "ascending";
        [...head.cells].forEach(each => { each.removeAttribute("aria-sort"); });
        cell.setAttribute("aria-sort", up ? "ascending" : "descending");
        [...rows].sort((a, b) => {
          var x = value(a, at), y = value(b, at);
          return (typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1) * (up ? 1 : -1);
        }).forEach(row => { body.append(row); });
      });
    });
    if (rows.length < 15) { return; }
    var field = document.createElement("input");
    field.type = "search";
    field.className = "narrow";
    field.placeholder = "Only rows with …";
    field.setAttribute("aria-label", "Only rows with these words");
    field.addEventListener("input", () => {
      var words = field.value.toLowerCase().split(/\s+/);
      rows.forEach(row => { row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word)); });
    });
    (table.closest(".scroll") || table).before(field);
  });
})();
