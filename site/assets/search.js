// Finds what is typed: the front page narrows its grid and answers, the search page lists places. Pages are complete
// without it.
(function () {
  "use strict";
  var MOST = 60, MOST_WINNERS = 15, MOST_ANSWERS = 4, MOST_NEAREST = 3;
  var KINDS = "experiment winner sample decision claim word case".split(" ");
  var get = id => document.getElementById(id), finder = get("finder"), field = get("query");
  if (!finder) { return; }
  var known = JSON.parse(finder.dataset.words), phrases = RegExp("\\b(" + Object.keys(known.alike).join("|") + ")\\b", "g");
  var list = get("found"), answers = get("answers"), said = get("found-count"), none = get("none-left");
  var winners, entries, asked, waiting, tried = [];

  function tokens(text) {
    return text.toLowerCase().replace(/[×*]/g, "x").replace(/([^a-z0-9.+]|\+(?!\+))+/g, " ").replace(/\b(\d[\dx]*) ?(x|by) ?(?=\d)/g, "$1x")
      .replace(phrases, found => known.alike[found]).split(" ").filter(Boolean);
  }

  function plain(text) { return " " + tokens(text).join(" "); }

  function isSize(word) { return /^\d[\dx]*$/.test(word); }

  function among(rows, name) { return [...new Set(rows.map(name))]; }

  function without(words, some) { return words.filter(word => !some.includes(word)); }

  // A size is one from its first digit on, anywhere in a shape, and one digit a whole one; a word may be a part of one.
  function fits(text, words) {
    return words.every(word => isSize(word) ? RegExp("[ x]" + word + (word[1] ? "" : "(?!\\d)")).test(text) : text.includes(word));
  }

  // Those with all words, or else with the most.
  function best(items, words, text) {
    var held = items.map(item => words.filter(word => fits(text(item), [word])).length);
    var most = Math.max(...held);
    return items.filter((_, at) => held[at] === most && (most || !words.length));
  }

  // Whether sizes are whole ones: 16x3584 is also the beginning of 16x3584x3584, and 409 of 4096.
  function isWhole(text, words) {
    return words.filter(isSize).every(word => {
      var end = word.includes("x") ? " " : "[ x]";
      return RegExp(end + word + end).test(text);
    });
  }

  function add(to, tag, text, name) {
    var made = document.createElement(tag);
    if (text) { made.textContent = text; }
    if (name) { made.className = name; }
    to.append(made);
    return made;
  }

  function fact(to, term, text) {
    add(to, "dt", term);
    return add(to, "dd", text);
  }

  function figure(to, text, at, after) {
    add(to, "data", text).dataset.src = at;
    to.append(after);
  }

  function name(family) { return winners.families[family]; }

  function ties(row) {
    var held = row.ties.map(name), last = held.pop();
    return ", " + (last ? "a tie with " + (held.length ? held.join(", ") + " and " : "") + last : row.doubt || "the fastest");
  }

  function called(row) { return row.title + " " + row.shape + " " + row.dtype; }

  function place(row) { return called(row) + " · " + winners.modes[row.mode] + " · " + row.gpu; }

  function against(shot) { return shot.ours + " " + shot.seconds + ", best rival " + shot.rival + " " + shot.rival_seconds; }

  function show() {
    clearTimeout(waiting);
    waiting = 0;
    var typed = tokens(field.value), words = without(typed, known.empty);
    if (answers) { narrow(words); } else { search(words.length ? words : typed); }
    remember(field.value.trim());
  }

  // The search page.

  function search(words) {
    list.textContent = said.textContent = "";
    if (!words.length) { return; }
    if (!entries || !winners) { said.textContent = "Loading the index."; load(); return; }
    var first = { winner: 0, sample: 0 }, typed = words.join(" ");
    var hits = best(entries, words, entry => entry.all).map(entry => {
      // Smaller is better: the whole name, its beginning, all words in it, words elsewhere.
      var at = entry.low === " " + typed ? 0 : entry.low.startsWith(" " + typed) ? 1 : fits(entry.low, words) ? 2 : 3;
      return [at * 10 + KINDS.indexOf(entry.kind), entry];
    }).sort((a, b) => a[0] - b[0]).filter(hit => !(hit[1].kind in first) || first[hit[1].kind]++ < MOST_WINNERS);
    hits.slice(0, MOST).forEach(hit => {
      var item = add(list, "li"), entry = hit[1];
      add(item, "a", entry.text).href = "../" + entry.href;
      add(item, "span", entry.kind, "kind");
      add(item, "span", entry.context, "soft small");
    });
    var told = said.textContent = hits.length + " found" + (hits.length > MOST ? ", the first " + MOST + " shown." : ".");
    if (!hits.length || !fits(hits[0][1].all, words)) {
      advise(words, entries.map(entry => entry.all), "Nothing has all words", "../", "");
      partly(told, hits.length);
    }
  }

  function unpack(index) {
    var found = [];
    function put(kind, href, text, context, more) {
      found.push({ kind, href, text, context, low: plain(text), all: plain([kind, text, context, href, more].join(" ")) });
    }
    ["word", "decision"].forEach(kind => {
      index[kind + "s"].forEach(line => { var f = line.split("\t"); put(kind, f[0], f[1], f[2]); });
    });
    index.experiments.forEach(line => {
      var f = line.split("\t"), folder = "experiments/" + f[0] + "/", page = folder + "index.html", form = index.forms[f[3]];
      put("experiment", page, f[1], f[2], f[4]);
      form.claims.forEach(c => { c = c.split("\t"); put("claim", page + "#claim-" + c[0], c[1], f[1]); });
      form.cases.forEach(c => { c = c.split("\t"); put("case", folder + "cases/" + c[0] + "/index.html", c[1], f[1]); });
    });
    winners.rows.forEach(row => { put("winner", row.page, place(row), name(row.best) + " " + row.p50 + ties(row)); });
    tried.forEach(shot => { put("sample", shot.page, place(shot), against(shot) + (shot.screened ? ", screened" : "")); });
    return found;
  }

  // How many letters are others; two that changed places count once.
  function distance(one, other) {
    var before = [], last = Array.from(" " + other, (_, at) => at);
    for (var i = 1; i <= one.length; i++) {
      var now = [i];
      for (var j = 1; j <= other.length; j++) {
        now[j] = Math.min(last[j] + 1, now[j - 1] + 1, last[j - 1] + (one[i - 1] === other[j - 1] ? 0 : 1));
        if (i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1]) { now[j] = Math.min(now[j], before[j - 2] + 1); }
      }
      before = last;
      last = now;
    }
    return last[other.length];
  }

  // In a short word fewer letters may be others; another number is another version.
  function nearestWord(word, texts) {
    var letters = text => text.replace(/\d/g, ""), best = "", least = Math.min(2, Math.floor(word.length / 3)) + 1;
    new Set(texts.join(" ").split(" ")).forEach(known => {
      if (isSize(known) || letters(known) === letters(word) || Math.abs(known.length - word.length) >= least) { return; }
      var apart = distance(word, known);
      if (apart < least) { least = apart; best = known; }
    });
    return best;
  }

  // The shapes of as many sizes whose factors from what was typed are least, each once; of the same operator and, but for
  // the very shape, dtype.
  function nearestShapes(words, dtype) {
    var sizes = words.filter(isSize), others = without(words, sizes), seen = {};
    sizes = sizes.join("x").split("x").map(Number);
    if (!others.length || !sizes.every(size => size > 0)) { return []; }
    function far(row) {
      return row.shape.split("×").reduce((sum, size, at) => sum + Math.abs(Math.log(size / sizes[at])), 0);
    }
    var alike = [...winners.rows, ...tried].filter(row =>
      row.shape.split("×").length === sizes.length && (!dtype || row.dtype === dtype || !far(row)) && fits(plain(place(row)), others));
    return preferred(alike, row => tokens(row.title).every(word => others.includes(word)))
      .sort((one, other) => far(one) - far(other)).filter(row => !seen[called(row)] && (seen[called(row)] = true)).slice(0, MOST_NEAREST);
  }

  function lostOf(words, texts) { return words.filter(word => !texts.some(text => fits(text, [word]))); }

  function oddOf(words, texts) { return lostOf(words, texts).filter(word => !isSize(word)); }

  function nothing(lost) { return "Nothing has “" + lost.join("” or “") + "”"; }

  function partly(told, some) { if (some) { said.append(" With some of the words: " + told); } }

  // A word that nothing has may be a GPU, or mistyped.
  function amend(words, texts, lead) {
    var lost = lostOf(words, texts), mended = {};
    var gpu = lost.find(word => /^(a|b|h|l|t|v|gb|gh|mi)\d{1,3}\w?$/.test(word));
    if (gpu) {
      said.textContent = "Not measured on " + gpu.toUpperCase() + "; on " + among(winners.rows, row => row.gpu).join(", ") + ".";
      return true;
    }
    lost.forEach(word => { var meant = isSize(word) ? "" : nearestWord(word, texts); if (meant) { mended[word] = meant; } });
    if (!Object.keys(mended).length) { return false; }
    var better = tokens(field.value).map(word => mended[word] || word).join(" ");
    said.textContent = lead + ". Did you mean ";
    add(said, "a", better).href = "?q=" + encodeURIComponent(better);
    said.append("?");
    return true;
  }

  // Where no word is mistyped no shape has all sizes, or one word excludes the rest.
  function advise(words, texts, lead, root, dtype) {
    if (amend(words, texts, lead)) { return true; }
    var lost = lostOf(words, texts), odd = oddOf(words, texts), near = nearestShapes(without(words, odd), dtype);
    if (odd.length) { lead = nothing(odd); }
    if (near.length) {
      said.textContent = lead + ". Nearest measured: ";
      near.forEach((row, at) => {
        add(said, "a", called(row)).href = root + row.page;
        said.append(near[at + 1] ? ", " : ".");
      });
    } else if (lost.length) {
      said.textContent = nothing(lost) + ".";
    } else {
      var rest = words.map(word => texts.filter(text => fits(text, without(words, [word]))).length), most = Math.max(...rest);
      said.textContent = lead + ": " + (most ? "“" + words[rest.indexOf(most)] + "” fits none of the " + most + " that the other words find." : "these words never stand together.");
    }
    return near.length;
  }

  // The front page.

  // Its implementations find a row, too.
  var texts = {}, rows = Array.from(document.querySelectorAll(".grid tr[data-at]"), line => {
    var said = line.parentNode.dataset.words;
    line.querySelectorAll("th, [data-c]").forEach(cell => { said += " " + (cell.dataset.c || cell.textContent); });
    return { line: line, text: texts[line.dataset.at] = plain(said) };
  });
  var groups = ["m", "g", "d"].map(name => {
    var all = [...document.getElementsByName(name)];
    var group = { all, own: all.findIndex(each => each.checked) };
    all.forEach((each, at) => { each.addEventListener("change", () => { group.own = at; show(); }); });
    return group;
  });

  // Without a word that names a choice the reader's own is back.
  function choose(group, words) {
    var held = group.all.map(each => tokens(wordOf(each)));
    var at = held.findIndex(some => words.some(word => word !== "cache" && some.includes(word)));
    if (group.all.length) { group.all[at < 0 ? group.own : at].checked = true; }
    return at < 0 ? [] : held[at];
  }

  function path(row) { return "/shapes/" + row.gpu + "/" + row.mode + "/" + row.case + "/"; }

  function sampled(shot) { return plain(called(shot) + " " + against(shot)); }

  function wordOf(choice) { return choice.dataset.word || ""; }

  function allTexts() { return [...rows.map(each => each.text), ...tried.map(sampled), ...groups.flatMap(group => group.all.map(each => plain(wordOf(each))))]; }

  function what(row) { return texts[path(row) + "cells/"]; }

  function preferred(rows, wanted) {
    var some = rows.filter(wanted);
    return some.length ? some : rows;
  }

  function narrow(words) {
    var chosen = groups.flatMap(group => choose(group, words));
    var rest = without(words, chosen), kept = best(rows, rest, each => each.text);
    rows.forEach(each => { each.line.hidden = !kept.includes(each); });
    document.querySelectorAll(".grid tbody").forEach(body => { body.hidden = !body.querySelector("tr:not([hidden])"); });
    var seen = rows.filter(each => each.line.checkVisibility()).length;
    none.hidden = seen > 0;
    none.querySelector("a").search = field.value ? "?q=" + encodeURIComponent(field.value) : "";
    answers.textContent = said.textContent = "";
    if (!words.length) { return; }
    var told = said.textContent = seen + (seen === 1 ? " shape fits." : " shapes fit.");
    if (!winners) { load(); return; }
    var every = allTexts(), odd = oddOf(rest, every), lead = odd.length ? nothing(odd) : "No shape fits", before = "";
    if (odd.length) {
      if (amend(rest, every, lead)) { partly(told, seen); none.hidden = true; return; }
      rest = without(rest, odd);
      said.textContent = before = lead + ". ";
      partly(told, seen);
      if (!rest.length) { return; }
      said.append(" ", none.querySelector("a").cloneNode(true));
    }
    var picked = groups.map(group => (group.all.find(each => each.checked) || { dataset: {} }).dataset.word);
    var hits = found(winners.rows, what), others = found(tried, sampled);
    if (!whole(hits, what) && (whole(others, sampled) || hits.every(apart) && nearestShapes(rest, picked[2]).length) || !hits.length) {
      others.slice(0, MOST_ANSWERS).forEach(sample);
      if (others.length) {
        none.hidden = true;
        said.textContent = before + "In no experiment; from a sample of shapes of public models:";
      } else {
        if (advise(rest, every, lead, finder.dataset.root, picked[2])) { none.hidden = true; }
        partly(told, seen);
      }
      return;
    }
    if (hits.length > MOST_ANSWERS) { hits = preferred(hits, row => !apart(row)); }
    if (!hits.length || hits.length > MOST_ANSWERS) { return; }
    hits.sort((one, other) => apart(one) - apart(other)).forEach(answer);
    var missing = elsewhere(hits, picked);
    if (missing) { said.textContent = before + missing; none.hidden = true; }

    function found(rows, text) {
      var some = rows.filter(row => fits(text(row), rest) && (!picked[2] || row.dtype === picked[2]));
      some = preferred(some, row => isWhole(text(row) + " ", rest));
      some = preferred(some, row => row.gpu === picked[1]);
      return preferred(some, row => winners.modes[row.mode] === picked[0]);
    }

    function whole(rows, text) { return rows.some(row => isWhole(text(row) + " ", rest)); }

    // How far an operator's name is from what was typed: "matmul" is Matmul, begins another, and is within FP8 matmul.
    function apart(row) {
      var typed = tokens(row.title).map(word => rest.includes(word));
      return typed.includes(false) ? typed[0] ? 1 : 2 : 0;
    }
  }

  // What to say of answers of another GPU or call than is chosen.
  function elsewhere(hits, picked) {
    var gpus = among(hits, row => row.gpu), modes = among(hits, row => winners.modes[row.mode]);
    if (!gpus.includes(picked[1])) { return "Not measured on " + picked[1] + "; on " + gpus.join(" and ") + ":"; }
    return modes.includes(picked[0]) ? "" : "Not measured as “" + picked[0] + "” on " + picked[1] + "; as “" + modes.join("” and “") + "”:";
  }

  // One of the shapes that no experiment lists.
  function sample(shot) {
    var box = add(answers, "article", "", "answer"), left = add(box, "div"), at = "zoo/data.json#" + shot.at;
    add(left, "h2", place(shot));
    var who = add(left, "p", "", "who"), facts = add(left, "dl");
    add(who, "strong", shot.ours);
    who.append(" ");
    figure(who, shot.seconds, at + "seconds", shot.screened ? ", screened only: fewer samples than usual, too few to choose by" : "");
    figure(fact(facts, "Best rival", shot.rival + " "), shot.rival_seconds, at + "rival_seconds", "");
    figure(fact(facts, "Ratio"), shot.ratio, at + "ratio", " of our time");
    var links = add(left, "p"), root = finder.dataset.root;
    add(links, "a", "All verdicts of this run").href = root + shot.page;
    links.append(", ");
    add(links, "a", "all such shapes").href = root + "zoo/index.html";
  }

  // What the grid says of torch.compile, unless the answer has it already.
  function compiled(facts, row, at) {
    var cell = document.querySelector("[data-at='" + path(row) + "cells/'] [data-c='torch.compile']");
    if (!cell || [row.best, row.over].includes("compile")) { return; }
    var held = fact(facts, "torch.compile, µs");
    held.append(...cell.cloneNode(true).childNodes);
    held.querySelectorAll("data").forEach(each => { each.dataset.src = at + each.dataset.src; });
  }

  function answer(row) {
    var box = add(answers, "article", "", "answer"), left = add(box, "div"), right = add(box, "div", "", "snippet");
    var at = "data.json#" + path(row);
    add(left, "h2", place(row));
    var who = add(left, "p", "", "who"), facts = add(left, "dl");
    add(who, "strong", name(row.best));
    who.append(" ");
    figure(who, row.p50, at + "cells/" + row.best + "/p50_seconds", ties(row));
    if (row.snippet < 0 && winners.axes[row.title]) { fact(facts, "Shape", winners.axes[row.title]); }
    var margin = fact(facts, "Margin", row.ratio ? "" : "too few sweeps to say");
    if (row.ratio) {
      figure(margin, row.ratio, at + "margin/ratio", " ");
      figure(margin, row.interval, at + "margin/low", " as fast as " + name(row.over) + (row.ties.includes(row.over) ? ": a tie" : ""));
    }
    compiled(facts, row, at + "cells/");
    var range = fact(facts, "Range");
    figure(range, row.least, at + "range/least_seconds", " to ");
    figure(range, row.most, at + "range/most_seconds", " in " + row.runs);
    if (row.newer) { fact(facts, "Newer", row.newer); }
    if (row.snippet >= 0) {
      var found = winners.snippets[row.snippet], line = add(right, "p", "", "small"), code = add(right, "pre");
      add(line, "code", found[0]);
      line.append(found[2]);
      code.tabIndex = 0;
      add(code, "code", (winners.sizes[row.sizes] + "\n" + found[1]).trim());
    }
    add(add(right, "p"), "a", "All times and their evidence").href = finder.dataset.root + row.page;
  }

  // A browser may forbid that of a file.
  function remember(query) {
    try { history.replaceState(null, "", location.pathname + (query ? "?q=" + encodeURIComponent(query) : "") + location.hash); } catch { return; }
  }

  // Rows come as lists, and the names of their columns once.
  function named(loaded) {
    if (!loaded) { return null; }
    loaded.rows = loaded.rows.map(cells => Object.fromEntries(loaded.columns.map((column, at) => [column, cells[at]])));
    return loaded;
  }

  function load() {
    if (asked) { return; }
    asked = true;
    var addresses = finder.dataset.load.split(" "), left = addresses.length;
    addresses.forEach(address => {
      var script = add(document.head, "script");
      script.src = address;
      script.onload = () => {
        if (--left) { return; }
        winners = named(window.kernelEvidenceWinners);
        if (window.kernelEvidenceTried) { tried = named(window.kernelEvidenceTried).rows; }
        if (window.kernelEvidenceIndex) { entries = unpack(window.kernelEvidenceIndex); }
        show();
      };
      script.onerror = () => { asked = false; said.textContent = "The index did not load; the lists below are complete."; };
    });
  }

  function move(event) {
    var links = [...(list || answers).querySelectorAll("a")];
    var at = links.indexOf(document.activeElement), step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === "/" && document.activeElement !== field) { field.focus(); event.preventDefault(); return; }
    if (event.key === "Escape") { field.value = ""; field.focus(); show(); return; }
    if (!step || (at < 0 && document.activeElement !== field)) { return; }
    event.preventDefault();
    // What was typed last may not be shown yet, and showing it replaces the links.
    if (waiting) { show(); move(event); return; }
    (links[at + step] || (at + step < 0 ? field : links[at]) || field).focus();
  }

  finder.hidden = false;
  field.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(show, 80); });
  document.addEventListener("keydown", move);
  field.value = new URLSearchParams(location.search).get("q") || "";
  if (field.value) { show(); }
})();
