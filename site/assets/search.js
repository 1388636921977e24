// Finds words in the index beside the search page, which is loaded when the first of them is typed.
(function () {
  "use strict";
  var MOST = 60;
  var finder = document.getElementById("finder");
  var field = document.getElementById("query");
  var list = document.getElementById("found");
  var status = document.getElementById("found-count");
  var entries = null, loading = false, waiting = 0;

  function unpack(index) {
    var found = [];
    function add(kind, href, text, context) {
      found.push({ kind: kind, href: href, text: text, context: context, low: text.toLowerCase(),
        all: (kind + " " + text + " " + context + " " + href).toLowerCase() });
    }
    index.words.forEach(function (line) { var f = line.split("\t"); add("word", f[0], f[1], f[2]); });
    index.decisions.forEach(function (line) { var f = line.split("\t"); add("decision", f[0], f[1], f[2]); });
    index.profiles.forEach(function (line) { var f = line.split("\t"); add("profile", f[0], f[1], f[2]); });
    index.experiments.forEach(function (line) {
      var f = line.split("\t"), folder = "experiments/" + f[0] + "/", page = folder + "index.html", form = index.forms[f[3]];
      add("experiment", page, f[1], f[2]);
      form.claims.forEach(function (c) { c = c.split("\t"); add("claim", page + "#claim-" + c[0], c[1], f[1]); });
      form.cases.forEach(function (c) { c = c.split("\t"); add("case", folder + "cases/" + c[0] + "/index.html", c[1], f[1]); });
    });
    return found;
  }

  // Smaller is better: the whole name, its beginning, all words in it, words elsewhere; experiments before the rest.
  function rank(entry, asked, words) {
    var within = words.every(function (word) { return entry.low.indexOf(word) >= 0; });
    var at = entry.low === asked ? 0 : entry.low.indexOf(asked) === 0 ? 1 : within ? 2 : 3;
    return at * 10 + ["experiment", "decision", "profile", "claim", "word", "case"].indexOf(entry.kind);
  }

  function show() {
    var asked = field.value.trim().toLowerCase(), words = asked.split(/\s+/).filter(Boolean);
    list.textContent = "";
    remember(asked && field.value.trim());
    if (!words.length) { status.textContent = ""; return; }
    if (!entries) { load(); return; }
    var hits = entries.filter(function (entry) {
      return words.every(function (word) { return entry.all.indexOf(word) >= 0; });
    }).map(function (entry) { return [rank(entry, asked, words), entry]; });
    hits.sort(function (a, b) { return a[0] - b[0]; });
    hits.slice(0, MOST).forEach(function (hit) {
      var item = document.createElement("li"), link = document.createElement("a");
      link.href = "../" + hit[1].href;
      link.textContent = hit[1].text;
      item.append(link, " ", part("kind", hit[1].kind), " ", part("soft small", hit[1].context));
      list.append(item);
    });
    status.textContent = hits.length === 0 ? "Nothing found." :
      hits.length + " found" + (hits.length > MOST ? ", the first " + MOST + " shown." : ".");
  }

  function part(name, text) {
    var made = document.createElement("span");
    made.className = name;
    made.textContent = text;
    return made;
  }

  function remember(query) {
    // The address keeps the question; where a browser forbids that of a file, nothing is lost but this.
    try {
      history.replaceState(null, "", location.pathname + (query ? "?q=" + encodeURIComponent(query) : ""));
    } catch (refused) { return; }
  }

  function load() {
    status.textContent = "Loading the index.";
    if (loading) { return; }
    loading = true;
    var script = document.createElement("script");
    script.src = finder.dataset.index;
    script.onload = function () { entries = unpack(window.kernelEvidenceIndex); show(); };
    script.onerror = function () { loading = false; status.textContent = "The index did not load; the lists below are complete."; };
    document.head.append(script);
  }

  function move(event) {
    var links = Array.prototype.slice.call(list.querySelectorAll("a"));
    var at = links.indexOf(document.activeElement), step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "/" && document.activeElement !== field) { field.focus(); event.preventDefault(); return; }
    if (event.key === "Escape") { field.value = ""; field.focus(); show(); return; }
    if (!step || (at < 0 && document.activeElement !== field)) { return; }
    event.preventDefault();
    (links[at + step] || (at + step < 0 ? field : links[at]) || field).focus();
  }

  finder.hidden = false;
  field.addEventListener("input", function () { clearTimeout(waiting); waiting = setTimeout(show, 120); });
  document.addEventListener("keydown", move);
  field.value = new URLSearchParams(location.search).get("q") || "";
  if (field.value) { show(); }
})();
