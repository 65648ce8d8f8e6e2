// Puts what the server sends into the page, where it differs; keyed elements stay what they are.
"use strict";
(() => {
  const part = document.querySelector("[data-live]");
  const state = document.querySelector("[data-state]");
  const toggle = document.querySelector("[data-toggle]");
  if (!part) return;
  let source = null;
  let held = false;

  function attributes(old, fresh) {
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) {
      if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
  }

  function morph(old, fresh) {
    if (old.nodeType === Node.TEXT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
    } else if (old.nodeType === Node.ELEMENT_NODE) {
      attributes(old, fresh);
      children(old, fresh);
    }
  }

  function keyOf(node) {
    return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key : undefined;
  }

  function children(old, fresh) {
    const keyed = new Map();
    for (const each of old.children) if (keyOf(each) !== undefined) keyed.set(keyOf(each), each);
    let at = old.firstChild;
    for (const next of [...fresh.childNodes]) {
      const key = keyOf(next);
      let same = key === undefined ? at : keyed.get(key);
      if (same && (keyOf(same) !== key || same.nodeName !== next.nodeName)) same = null;
      if (!same) {
        old.insertBefore(next, at);
        continue;
      }
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      morph(same, next);
    }
    while (at) {
      const gone = at;
      at = at.nextSibling;
      gone.remove();
    }
  }

  function take(event) {
    const told = JSON.parse(event.data);
    if (told.trouble) {
      say(told.trouble);
      return;
    }
    const fresh = new DOMParser().parseFromString(`<div>${told.html}</div>`, "text/html");
    const focused = document.activeElement;
    children(part, fresh.body.firstElementChild);
    if (focused && focused !== document.activeElement && part.contains(focused)) focused.focus({ preventScroll: true });
    say("Live");
  }

  function say(text) {
    if (state.textContent !== text) state.textContent = text;
  }

  function open() {
    if (source || held || document.hidden) return;
    source = new EventSource(part.dataset.live);
    source.addEventListener("part", take);
    source.addEventListener("lines", (event) => window.fairLines(JSON.parse(event.data)));
    source.addEventListener("error", () => say("No connection; trying again"));
  }

  function close() {
    if (source) source.close();
    source = null;
  }

  toggle.hidden = false;
  toggle.addEventListener("click", () => {
    held = !held;
    toggle.setAttribute("aria-pressed", String(held));
    if (held) {
      close();
      say("Held still");
    } else open();
  });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", open);
  open();
})();
