"use strict";
(() => {
  const $ = (id) => document.getElementById(id);

  // The secret comes behind the # once, and is kept by this tab alone.
  const store = { get: () => { try { return sessionStorage.getItem("secret"); } catch { return null; } }, set: (v) => { try { sessionStorage.setItem("secret", v); } catch { /* until it is loaded again */ } } };
  let secret = store.get();
  const given = location.hash.match(/^#secret=(\w+)$/);
  if (given) {
    secret = given[1];
    store.set(secret);
    history.replaceState(null, "", "#/pods");
  }

  let skew = 0; // the agent's clock less ours, in ms
  const ask = async (path) => {
    const answer = await fetch(path, { headers: secret ? { Authorization: "Bearer " + secret } : {}, cache: "no-store" });
    const body = await answer.json();
    if (!answer.ok) throw Object.assign(new Error(body.error || answer.statusText), { status: answer.status });
    return body;
  };
  const now = () => Date.now() + skew;

  // Texts.
  const two = (n) => String(n).padStart(2, "0");
  const clock = (at) => { const d = new Date(at); return two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds()) + "." + String(d.getMilliseconds()).padStart(3, "0"); };
  const long = (ms) => {
    const s = Math.max(0, ms) / 1000;
    if (s < 60) return Math.floor(s) + "s";
    if (s < 3600) return Math.floor(s / 60) + "m" + Math.floor(s % 60) + "s";
    if (s < 172800) return Math.floor(s / 3600) + "h" + Math.floor(s % 3600 / 60) + "m";
    return Math.floor(s / 86400) + "d";
  };
  const ago = (at) => at ? long(now() - Date.parse(at)) : "";
  const took = (ns) => !ns ? "" : ns < 1e6 ? Math.round(ns / 1e3) + "µs" : ns < 1e9 ? (ns / 1e6).toFixed(ns < 1e7 ? 1 : 0) + "ms" : (ns / 1e9).toFixed(2) + "s";
  const many = (n, what) => n.toLocaleString("en") + " " + what + (n === 1 ? "" : "s");
  const line = (...parts) => parts.filter(Boolean).join(" ");

  // say sets a text only if it is another: what is selected stays selected.
  const say = (node, text) => { if (node.textContent !== text) node.textContent = text; };
  const mark = (node, name) => { if (node.className !== name) node.className = name; };
  const show = (node, on) => { node.hidden = !on; };

  // rows keeps the children of a node in step with items, by key.
  const rows = (parent, items, key, make, fill) => {
    const old = new Map();
    for (const child of parent.children) old.set(child.dataset.key, child);
    let at = parent.firstElementChild;
    for (const item of items) {
      const k = String(key(item));
      let node = old.get(k);
      old.delete(k);
      if (!node) { node = make(item); node.dataset.key = k; }
      if (node !== at) parent.insertBefore(node, at); else at = at.nextElementSibling;
      fill(node, item);
    }
    for (const node of old.values()) node.remove();
  };
  const cells = (...names) => () => {
    const tr = document.createElement("tr");
    for (const name of names) { const td = tr.insertCell(); if (name) td.className = name; }
    return tr;
  };
  const element = (name) => () => document.createElement(name);
  const link = (node, to, text) => {
    let a = node.querySelector("a");
    if (!a) { a = document.createElement("a"); node.append(a); }
    if (a.getAttribute("href") !== to) a.setAttribute("href", to);
    say(a, text);
  };

  // Pods.
  const podPath = (p) => "#/pod/" + encodeURIComponent(p.uid);
  const settled = (p) => p.ready || p.phase === "Succeeded";
  const state = (p) => p.life === "Terminating" ? "Terminating" : p.life === "Rejected" ? "Rejected" : p.phase;
  const readiness = (p) => { const c = p.containers.filter((c) => c.kind === "main" || c.kind === "sidecar"); return c.length ? c.filter((c) => c.ready).length + "/" + c.length : ""; };
  const color = (p) => settled(p) ? "good" : p.why && p.why.wrong ? "bad" : "way";
  let pods = null;

  const drawPods = () => {
    if (!pods) return;
    const find = $("pods-find").value.trim().toLowerCase();
    const unready = $("pods-unready").checked;
    const list = pods.pods.filter((p) => (!find || (p.namespace + "/" + p.name).toLowerCase().includes(find)) && (!unready || !settled(p)));
    const bad = pods.pods.filter((p) => !settled(p)).length;
    say($("pods-sum"), many(pods.pods.length, "pod") + ", " + bad + " not ready" + (list.length < pods.pods.length ? ", " + list.length + " shown" : ""));
    const waiting = [];
    if (pods.waitingFor) waiting.push("The agent waits for " + pods.waitingFor.join(" and ") + ".");
    if (pods.runtime) waiting.push("The container runtime has not answered for " + ago(pods.runtime.since) + ": " + pods.runtime.message);
    show($("pods-waiting"), waiting.length);
    say($("pods-waiting"), waiting.join(" "));
    rows($("pods-rows"), list, (p) => p.uid, cells("", "tight", "tight", "number", "number", ""), (tr, p) => {
      const c = tr.cells;
      link(c[0], podPath(p), p.namespace + "/" + p.name);
      say(c[1], state(p)); mark(c[1], "tight " + color(p));
      say(c[2], readiness(p));
      say(c[3], String(p.restarts));
      say(c[4], ago(p.startTime));
      say(c[5], p.why ? p.why.text : ""); mark(c[5], p.why && p.why.wrong ? "bad" : "");
    });
    const gone = pods.gone || [];
    show($("gone"), gone.length);
    rows($("gone-rows"), gone, (p) => p.uid, element("li"), (li, p) => link(li, podPath(p), p.namespace + "/" + p.name + ", " + ago(p.ended) + " ago"));
    const problems = pods.problems || [];
    show($("problems"), problems.length);
    rows($("problems-rows"), problems.map((p, i) => ({ p, i })), (x) => x.i, element("li"), (li, x) => { mark(li, "bad"); say(li, line(x.p.source + ":", x.p.field, x.p.message)); });
  };

  // One pod.
  let story = null;
  const drawPod = () => {
    if (!story) return;
    const p = story.pod;
    say($("pod-name"), story.namespace + "/" + story.name);
    say($("pod-facts"), line("UID " + story.uid + ".", p ? state(p) + (p.ip ? ", " + p.ip : "") + (p.source ? ", from " + p.source : "") + "." : "", story.ended ? "Removed from this node at " + clock(story.ended) + "." : "", story.silent));
    const why = p ? p.why : null;
    mark($("why"), p && !why ? "well" : why && why.wrong ? "wrong" : "");
    say($("why-text"), why ? why.text : p ? "It is ready." : story.ended ? "It has terminated." : "This node no longer has it.");
    say($("why-next"), why && why.next ? why.next : "");
    show($("containers"), p && p.containers.length);
    rows($("containers-rows"), p ? p.containers : [], (c) => c.kind + "/" + c.name, cells("", "tight", "tight", "number", ""), (tr, c) => {
      say(tr.cells[0], c.name + (c.kind === "main" ? "" : " (" + c.kind + ")"));
      say(tr.cells[1], c.state + (c.exitCode === undefined ? "" : " " + c.exitCode));
      say(tr.cells[2], c.ready ? "yes" : "no");
      say(tr.cells[3], String(c.restarts));
      const last = c.last ? "the last run terminated with exit code " + c.last.exitCode + (c.last.reason ? " (" + c.last.reason + ")" : "") : "";
      say(tr.cells[4], [c.reason, c.message, last].filter(Boolean).join("; "));
    });
    let list = story.entries.filter((e) => e.kind === "crash" || $("show-" + e.kind).checked).map((e) => ({ e, key: e.seq }));
    if (story.dropped) {
      const after = story.entries[story.droppedAfter - 1].seq;
      const i = list.findIndex((x) => x.e.seq > after);
      list.splice(i < 0 ? list.length : i, 0, { gap: many(story.dropped, "entry").replace("entrys", "entries") + " left out here", key: "gap" });
    }
    if ($("newest-first").checked) list.reverse();
    rows($("timeline-rows"), list, (x) => x.key, cells("", "number", "", "", "number", ""), (tr, x) => {
      const c = tr.cells, e = x.e;
      if (x.gap) { mark(tr, "gap"); say(c[3], x.gap); return; }
      const goes = e.kind === "call" && (e.phase === "queued" || e.phase === "running");
      mark(tr, line(e.kind, e.bad && "wrong", goes && "running"));
      say(c[0], clock(e.at));
      say(c[1], ago(e.last || e.at));
      say(c[2], e.kind + (e.by ? " of " + e.by : ""));
      say(c[3], line(e.what, e.object, e.count > 1 && "×" + e.count));
      say(c[4], e.kind !== "call" ? "" : goes ? e.phase + " " + ago(e.at) : took(e.took) + (e.waited > 1e7 ? " +" + took(e.waited) + " queued" : ""));
      say(c[5], line(e.kind === "call" && !goes && e.phase !== "finished" && e.phase + (e.text ? ":" : ""), e.text));
    });
  };

  // Actors: only those on the screen are in the page.
  const rowHeight = 24;
  let tree = null, lines = [];
  const age = (at) => at ? tree.now - Date.parse(at) : 0;
  const hungCall = (e) => !e.standing && (e.phase === "overdue" || e.phase === "running" && age(e.since) > Math.max(5000, (e.patience || 0) / 1e6));
  const unwell = (a) => a.status !== "Running" || a.depth > 0 && age(a.oldest) > 5000 || a.since && age(a.since) > 5000;
  const layTree = () => {
    if (!tree) return;
    tree.now = Date.parse(tree.at);
    const find = $("actors-find").value.trim().toLowerCase();
    const order = $("actors-order").value;
    let list = tree.actors;
    if (find) list = list.filter((a) => (a.path + " " + (a.label || "")).toLowerCase().includes(find));
    const by = { mailbox: (a) => a.depth, age: (a) => age(a.oldest), restarts: (a) => a.restarts }[order];
    if (by) list = list.slice().sort((a, b) => by(b) - by(a) || (a.path < b.path ? -1 : 1));
    lines = [];
    for (const a of list) {
      lines.push({ a, deep: by || find ? 0 : a.path.split("/").length - 1 });
      for (const e of a.effects || []) if (!e.standing) lines.push({ a, e, deep: by || find ? 0 : a.path.split("/").length - 1 });
    }
    let busy = 0, depth = 0, ill = 0;
    for (const a of tree.actors) { depth += a.depth; busy += a.handling ? 1 : 0; ill += unwell(a) ? 1 : 0; }
    say($("actors-sum"), many(tree.actors.length, "actor") + ", " + ill + " unhealthy, " + busy + " busy, " + many(depth, "message") + " waiting, " + many(tree.goroutines, "goroutine") + (find ? "; " + list.length + " shown" : ""));
    say($("pools"), tree.pools.map((p) => p.name + " " + p.held + "/" + p.size + (p.waiting ? " (" + p.waiting + " wait)" : "")).join(", ").replace(/^/, "Slots: "));
    $("tree-space").style.height = lines.length * rowHeight + "px";
    drawTree();
  };
  const drawTree = () => {
    if (!tree) return;
    const box = $("tree");
    const from = Math.max(0, Math.floor(box.scrollTop / rowHeight) - 5);
    const to = Math.min(lines.length, from + Math.ceil(box.clientHeight / rowHeight) + 12);
    const parent = $("tree-rows");
    parent.style.transform = "translateY(" + from * rowHeight + "px)";
    while (parent.children.length > to - from) parent.lastElementChild.remove();
    for (let i = from; i < to; i++) {
      let row = parent.children[i - from];
      if (!row) {
        row = document.createElement("div");
        row.setAttribute("role", "row");
        for (let k = 0; k < 6; k++) { const s = document.createElement("span"); s.setAttribute("role", "cell"); row.append(s); }
        parent.append(row);
      }
      const { a, e, deep } = lines[i], c = row.children;
      const name = a.path.slice(a.path.lastIndexOf("/") + 1);
      c[0].style.paddingLeft = deep * 18 + (e ? 18 : 0) + "px";
      if (e) {
        mark(row, "actor calls" + (hungCall(e) ? " unwell" : ""));
        say(c[0], "↳ " + line(e.kind, e.object));
        say(c[1], e.phase); say(c[2], ""); say(c[3], ""); say(c[4], long(age(e.since)));
        say(c[5], line(e.holdsSlot && "slot of " + e.holdsSlot, "lane " + e.lane));
        continue;
      }
      mark(row, "actor" + (unwell(a) ? " unwell" : ""));
      if (a.kind === "pod") { if (!c[0].firstElementChild) c[0].textContent = ""; link(c[0], "#/pod/" + encodeURIComponent(name), (a.label || name) + " (" + name.slice(0, 8) + ")"); } else say(c[0], name);
      say(c[1], a.status);
      say(c[2], String(a.restarts));
      say(c[3], String(a.depth));
      say(c[4], a.oldest ? long(age(a.oldest)) : "");
      say(c[5], a.handling ? a.handling + " for " + long(age(a.since)) : a.lastCrash && a.status !== "Running" ? a.lastCrash.reason : "");
    }
  };

  // Crashes and dead letters.
  const drawCrashes = () => {
    const list = (tree.crashes || []).slice().reverse();
    show($("crashes-none"), !list.length);
    rows($("crashes-rows"), list, (c) => c.path + c.at + c.incarnation, () => {
      const d = document.createElement("details");
      const s = document.createElement("summary");
      s.append(document.createElement("b"), document.createElement("span"));
      d.append(s, document.createElement("p"), document.createElement("pre"));
      return d;
    }, (d, c) => {
      const [head, rest] = d.firstElementChild.children;
      say(head, c.reason + " ");
      const of = (tree.actors.find((a) => a.path === c.path) || {}).label;
      say(rest, c.path + (of ? " (" + of + ")" : "") + ", " + clock(c.at) + ", " + ago(c.at) + " ago");
      say(d.children[1], "On " + c.message + (c.detail ? " {" + c.detail + "}" : "") + ", in incarnation " + c.incarnation + "; " + many(c.crashes, "crash").replace("crashs", "crashes") + " recently; decision: " + c.decision + (c.retryAfter ? ", next attempt after " + took(c.retryAfter) : "") + (c.last && c.last.length ? ". Messages before it: " + c.last.join(", ") : "") + ".");
      say(d.children[2], c.stack);
    });
  };
  let letters = null;
  const drawLetters = () => {
    say($("letters-sum"), many(tree.deadLetters, "dead letter") + " since the agent started, " + many(tree.dropped, "message") + " dropped by full mailboxes. The newest are:");
    rows($("letters-rows"), letters.map((l, i) => ({ l, i })).reverse(), (x) => x.i, cells("tight", "", "", "", "number"), (tr, { l }) => {
      say(tr.cells[0], clock(l.last || l.at)); say(tr.cells[1], l.type); say(tr.cells[2], l.to);
      say(tr.cells[3], l.from || "was in the mailbox when the actor stopped"); say(tr.cells[4], String(l.count || 1));
    });
  };

  // What is shown, and when it is asked for.
  const views = {
    pods: { ask: async () => { const [p, gone] = await Promise.all([ask("/v1/pods"), ask("/v1/gone")]); pods = p; pods.gone = gone; say($("node"), p.node); drawPods(); } },
    pod: { ask: async (uid) => { const s = await ask("/v1/timeline?pod=" + encodeURIComponent(uid)); if (route().arg === uid) { story = s; skew = Date.parse(s.at) - Date.now(); drawPod(); } } },
    actors: { ask: async () => { layTree(); } },
    crashes: { ask: async () => drawCrashes() },
    letters: { ask: async () => { letters = await ask("/v1/deadletters"); drawLetters(); } },
  };
  const route = () => {
    const [, name, arg] = location.hash.match(/^#\/(\w+)(?:\/(.*))?$/) || [];
    return views[name] ? { name, arg: decodeURIComponent(arg || "") } : { name: "pods", arg: "" };
  };
  const loud = (id, text, on) => { say($(id), text); mark($(id), on ? "loud" : ""); };
  const counts = () => {
    loud("count-actors", tree.actors.length.toLocaleString("en"));
    loud("count-crashes", String((tree.crashes || []).length), (tree.crashes || []).length);
    loud("count-letters", tree.deadLetters.toLocaleString("en"));
    if (pods) loud("count-pods", pods.pods.length.toLocaleString("en"));
    say($("node"), tree.node);
  };

  const pause = 2000;
  let turn = 0, timer = 0;
  const refresh = async () => {
    clearTimeout(timer);
    const mine = ++turn, at = route(), began = performance.now();
    for (const name of Object.keys(views)) show($(name), name === at.name);
    for (const name of ["pods", "actors", "crashes", "letters"]) {
      const tab = $("tab-" + name), on = name === at.name || name === "pods" && at.name === "pod";
      if (on) tab.setAttribute("aria-current", "page"); else tab.removeAttribute("aria-current");
    }
    document.title = (at.name === "pod" && story && story.uid === at.arg ? story.name + " · " : "") + "troupe" + (tree ? " " + tree.node : "");
    try {
      // The tree is large, and only some views are made of it.
      if (!tree || at.name !== "pods" && at.name !== "pod") {
        const t = await ask("/v1/tree");
        if (mine !== turn) return;
        tree = t;
        skew = Date.parse(t.at) - Date.now();
      }
      await views[at.name].ask(at.arg);
      if (mine !== turn) return;
      counts();
      show($("trouble"), false);
      say($("state"), "as of " + clock(now()));
      document.body.dataset.shown = at.name;
    } catch (e) {
      if (mine !== turn) return;
      show($("trouble"), true);
      say($("trouble"), e instanceof TypeError ? "The agent does not answer: " + e.message + ". Trying again." : e.message);
      say($("state"), "");
    }
    if (mine === turn && !document.hidden) timer = setTimeout(refresh, Math.max(pause, 5 * (performance.now() - began)));
  };

  $("pods-find").addEventListener("input", drawPods);
  $("pods-unready").addEventListener("change", drawPods);
  for (const id of ["show-call", "show-event", "show-status", "show-message", "newest-first"]) $(id).addEventListener("change", drawPod);
  $("actors-find").addEventListener("input", layTree);
  $("actors-order").addEventListener("change", layTree);
  $("tree").addEventListener("scroll", drawTree, { passive: true });
  addEventListener("resize", drawTree);
  addEventListener("hashchange", () => { story = null; scrollTo(0, 0); refresh(); });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
  refresh();
})();
