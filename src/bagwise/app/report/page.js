// Tables that sort and filter, and sounds that play: all works without, and nothing is loaded from anywhere else.
(() => {
  "use strict";
  const LIMIT = 100; // rows of a table that are shown before all are asked for
  const FILTERED = 8; // tables of more rows get a field to find some
  const said = document.getElementById("said");

  const make = (tag, properties, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };

  // -- tables ---------------------------------------------------------------------------------------------------------

  const value = (cell) => {
    const text = (cell.dataset.v ?? cell.textContent).trim();
    return text !== "" && !Number.isNaN(Number(text)) ? Number(text) : text;
  };

  const order = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === ""); // what is not known comes last, either way
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };

  for (const table of document.querySelectorAll("table.tool")) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    if (rows.length < 2) continue;
    const box = table.parentElement;
    let found = rows;
    let whole = false;
    let count = null;
    const more = make("button", { type: "button", className: "more", hidden: true });
    box.after(more);

    const show = () => {
      const kept = new Set(whole ? found : found.slice(0, LIMIT));
      for (const row of rows) row.hidden = !kept.has(row);
      more.hidden = whole || found.length <= LIMIT;
      more.textContent = `Show all ${found.length}`;
      if (count) count.textContent = found.length === rows.length ? `${rows.length} rows` : `${found.length} of ${rows.length} rows`;
    };

    more.addEventListener("click", () => {
      whole = true;
      show();
      said.textContent = `${found.length} rows shown`;
    });

    [...table.tHead.rows[0].cells].forEach((head, column) => {
      if (head.classList.contains("plain")) return;
      const button = make("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const keys = new Map(rows.map((row) => [row, value(row.cells[column])]));
        const sign = up ? 1 : -1;
        const blank = (row) => keys.get(row) === "";
        rows.sort((a, b) => (blank(a) || blank(b) ? order(keys.get(a), keys.get(b)) : sign * order(keys.get(a), keys.get(b))));
        body.append(...rows);
        const kept = new Set(found);
        found = rows.filter((row) => kept.has(row));
        show();
        said.textContent = `Sorted by ${button.textContent}, ${up ? "ascending" : "descending"}`;
      });
    });

    if (rows.length > FILTERED) {
      const texts = new Map(rows.map((row) => [row, row.textContent.toLocaleLowerCase()]));
      const field = make("input", { type: "search", autocomplete: "off", placeholder: "name, label, site, date …" });
      count = make("span", { className: "count" });
      count.setAttribute("role", "status");
      box.before(make("div", { className: "find" }, make("label", {}, "Find ", field), count));
      let waiting = 0;
      field.addEventListener("input", () => {
        clearTimeout(waiting);
        waiting = setTimeout(() => {
          const words = field.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
          found = rows.filter((row) => words.every((word) => texts.get(row).includes(word)));
          whole = false;
          show();
        }, 120);
      });
    }
    show();
  }

  // -- sounds ---------------------------------------------------------------------------------------------------------

  const sound = new Audio();
  let playing = null;
  const stop = () => {
    sound.pause();
    playing?.setAttribute("aria-pressed", "false");
    playing = null;
  };
  const missing = (button) => {
    stop();
    button.classList.add("gone");
    button.title = `Sound not found: ${button.dataset.sound} must be in the folder of this page.`;
    said.textContent = button.title;
  };
  sound.addEventListener("ended", stop);
  for (const button of document.querySelectorAll("button.play")) {
    button.hidden = false;
    button.addEventListener("click", () => {
      const again = playing === button;
      stop();
      if (again) return;
      playing = button;
      button.setAttribute("aria-pressed", "true");
      sound.src = button.dataset.sound;
      sound.play().catch((error) => {
        if (error.name !== "AbortError") missing(button);
      });
    });
  }

  // -- from a row to its region ---------------------------------------------------------------------------------------

  const centre = () => {
    const target = document.getElementById(location.hash.slice(1));
    if (target?.classList.contains("region")) target.closest("figure").scrollIntoView({ block: "center" });
  };
  addEventListener("hashchange", centre);
  centre();

  document.documentElement.dataset.ready = "1";
})();
