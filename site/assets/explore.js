// Loads plotly from the site itself when a reader asks to explore a chart. Pages are complete without it.
(function () {
  "use strict";
  var ink = function () { return getComputedStyle(document.body).color; };
  document.querySelectorAll("[data-explore]").forEach(function (button) {
    button.hidden = false;
    button.addEventListener("click", function () {
      var target = document.getElementById(button.dataset.explore);
      var figure = JSON.parse(document.getElementById(button.dataset.explore + "-data").textContent);
      var draw = function () {
        figure.layout.paper_bgcolor = figure.layout.plot_bgcolor = "rgba(0,0,0,0)";
        figure.layout.font = { color: ink(), family: "system-ui, sans-serif" };
        figure.layout.xaxis.gridcolor = figure.layout.yaxis.gridcolor = "rgba(128,128,128,0.25)";
        (figure.layout.shapes || []).forEach(function (shape) { shape.line.color = ink(); });
        target.hidden = false;
        window.Plotly.newPlot(target, figure.data, figure.layout, {
          responsive: true, displaylogo: false, showSendToCloud: false, plotlyServerURL: ""
        });
        target.tabIndex = -1; // the button that held the focus goes
        target.focus({ preventScroll: true });
        button.hidden = true;
      };
      if (window.Plotly) { draw(); return; }
      button.disabled = true;
      var script = document.createElement("script");
      script.src = button.dataset.script;
      script.onload = draw;
      script.onerror = function () { button.disabled = false; button.textContent = "The chart library did not load. Try again"; };
      document.head.appendChild(script);
    });
  });
})();
