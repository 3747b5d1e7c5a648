
// The report is complete without this. It adds a cross-hair over all that has the axis of time, and
// a button that copies the command.
(function () {
  "use strict";
  var count = function (n) { return n.toLocaleString("en-US", { maximumFractionDigits: n < 10 ? 1 : 0 }); };
  var two = function (n) { return (n < 10 ? "0" : "") + n; };
  var clock = function (ms) {
    var s = Math.round(ms / 1000);
    if (s < 60) return (ms < 60000 ? Math.round(ms / 10) / 100 : s) + "s";
    if (s < 3600) return Math.floor(s / 60) + "m " + two(s % 60) + "s";
    return Math.floor(s / 3600) + "h " + two(Math.floor(s / 60) % 60) + "m " + two(s % 60) + "s";
  };

  var data = document.getElementById("series");
  if (data) {
    var series = JSON.parse(data.textContent);
    var when = document.getElementById("when");
    var plots = document.querySelectorAll(".timed .area");
    var keys = series.phases.map(function (p) { return document.querySelector('.keys [data-phase="' + p + '"] b'); });
    var atEnd = { when: when.textContent, keys: keys.map(function (k) { return k.textContent; }) };
    var lines = Array.prototype.map.call(plots, function (plot) {
      var line = document.createElement("i");
      line.className = "cursor";
      line.hidden = true;
      plot.appendChild(line);
      return line;
    });
    var show = function (event) {
      var box = event.currentTarget.getBoundingClientRect();
      var share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      var at = share * series.end, bin = -1;
      while (bin + 1 < series.at.length && series.at[bin + 1] <= at) bin++;
      lines.forEach(function (line) { line.hidden = false; line.style.left = 100 * share + "%"; });
      when.textContent = "At " + clock(at);
      keys.forEach(function (k, i) { k.textContent = count(bin < 0 ? 0 : series.pods[i][bin]); });
    };
    var hide = function () {
      lines.forEach(function (line) { line.hidden = true; });
      when.textContent = atEnd.when;
      keys.forEach(function (k, i) { k.textContent = atEnd.keys[i]; });
    };
    plots.forEach(function (plot) {
      plot.addEventListener("pointermove", show);
      plot.addEventListener("pointerdown", show);
      plot.addEventListener("pointerleave", hide);
    });
  }

  var command = document.querySelector("#command code");
  if (command && navigator.clipboard) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = "Copy";
    button.addEventListener("click", function () {
      navigator.clipboard.writeText(command.textContent).then(
        function () { button.textContent = "Copied"; },
        function () { button.textContent = "Not allowed"; }
      ).then(function () { setTimeout(function () { button.textContent = "Copy"; }, 1500); });
    });
    command.parentNode.appendChild(button);
  }
})();
