// Sorts long tables by a click on a heading, and narrows them by words. Pages are complete without it.
(function () {
  "use strict";
  function value(row, at) {
    var cell = row.cells[at], datum = cell.querySelector("data"), text = cell.textContent.trim();
    var number = parseFloat(datum ? datum.value : text);
    return isNaN(number) ? text.toLowerCase() : number;
  }
  document.querySelectorAll("main table:not(.grid, .experiments)").forEach(function (table) {
    var body = table.tBodies[0], head = table.tHead && table.tHead.rows[0], rows = body ? Array.from(body.rows) : [];
    if (!head || table.tBodies.length > 1 || rows.length < 6) { return; }
    if (!rows.every(function (row) { return row.cells.length === head.cells.length; })) { return; }
    Array.from(head.cells).forEach(function (cell, at) {
      if (!cell.textContent.trim() || cell.querySelector("a, button")) { return; }
      var button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append.apply(button, cell.childNodes);
      cell.append(button);
      button.addEventListener("click", function () {
        var up = cell.getAttribute("aria-sort") !== "ascending";
        Array.from(head.cells).forEach(function (each) { each.removeAttribute("aria-sort"); });
        cell.setAttribute("aria-sort", up ? "ascending" : "descending");
        rows.slice().sort(function (a, b) {
          var x = value(a, at), y = value(b, at);
          return (typeof x === typeof y ? (x < y ? -1 : x > y ? 1 : 0) : typeof x === "number" ? -1 : 1) * (up ? 1 : -1);
        }).forEach(function (row) { body.append(row); });
      });
    });
    if (rows.length < 15) { return; }
    var field = document.createElement("input");
    field.type = "search";
    field.className = "narrow";
    field.placeholder = "Only rows with …";
    field.setAttribute("aria-label", "Only rows with these words");
    field.addEventListener("input", function () {
      var words = field.value.toLowerCase().split(/\s+/);
      rows.forEach(function (row) { row.hidden = !words.every(function (word) { return row.textContent.toLowerCase().indexOf(word) >= 0; }); });
    });
    (table.closest(".scroll") || table).before(field);
  });
})();
