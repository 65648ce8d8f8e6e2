// Draws the lines of queues, with uPlot. Colours are told apart with most kinds of sight (Okabe, Ito).
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const colours = () =>
    dark.matches
      ? ["#56b4e9", "#e69f00", "#3fce9c", "#f0e442", "#7fa7ff", "#ff8a5c", "#e79cc8", "#d0d5da"]
      : ["#0072b2", "#c77700", "#00805c", "#8a7a00", "#5a4fcf", "#c4480b", "#a8437f", "#3a4046"];
  const most = 600;
  const plots = [...document.querySelectorAll(".plot")].map((element) => ({ element, plot: null }));
  let known = null;

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const scale = (unit) => (unit === "%" ? 100 : 1);

  function amount(value, unit) {
    if (value === null || value === undefined) return "–";
    const text = Math.abs(value) >= 1000 ? value.toLocaleString("en") : String(Number(value.toPrecision(3)));
    return unit ? `${text} ${unit}` : text;
  }

  const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString("en-GB");

  // A point that no line leads to, as where a queue was charged in one minute only.
  const alone = (plot, index) =>
    plot.data[index].flatMap((value, at, line) => (value !== null && (line[at - 1] ?? line[at + 1] ?? null) === null ? [at] : []));

  function series(names, wanted) {
    return names.flatMap((name, number) =>
      wanted.map((figure, which) => ({
        label: wanted.length > 1 ? `${name}, ${figure}` : name,
        stroke: colours()[number % 8],
        width: which ? 1.5 : 2,
        dash: which ? [[2, 4], [8, 4]][which - 1] : [],
        points: { show: false, filter: alone, size: 5 },
      })),
    );
  }

  function draw(each) {
    const { element } = each;
    const unit = element.dataset.unit || "";
    const wanted = element.dataset.figures.split(",");
    const data = [known.times];
    known.names.forEach((_, number) => {
      for (const figure of wanted) {
        const line = known.lines[number * known.figures.length + known.figures.indexOf(figure)];
        data.push(line.map((value) => (value === null ? null : value * scale(unit))));
      }
    });
    if (each.plot && each.names === known.names) {
      each.plot.setData(data);
      return;
    }
    if (each.plot) each.plot.destroy();
    element.replaceChildren();
    const axis = { stroke: style("--faint"), grid: { stroke: style("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    each.names = known.names;
    each.plot = new uPlot(
      {
        width: element.clientWidth,
        height: 200,
        legend: { show: false },
        cursor: { y: false, drag: { setScale: false } },
        scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
        axes: [{ ...axis, space: 80, size: 28, values: (_, values) => values.map(clock) }, { ...axis, size: 64, values: (_, values) => values.map((value) => amount(value, unit)) }],
        series: [{}, ...series(known.names, wanted)],
      },
      data,
      element,
    );
    if (known.names.length > 1) element.append(legend());
  }

  function legend() {
    const list = document.createElement("ul");
    list.className = "legend";
    known.names.forEach((name, number) => {
      const entry = document.createElement("li");
      const mark = document.createElement("span");
      mark.className = "mark";
      mark.style.backgroundColor = colours()[number % 8];
      entry.append(mark, name);
      list.append(entry);
    });
    return list;
  }

  function redraw() {
    if (!known) return;
    for (const each of plots) draw(each);
  }

  window.fairLines = (told) => {
    if (told.whole || !known) known = told;
    else if (told.times[0] !== known.times[known.times.length - 1]) {
      known.times.push(...told.times);
      known.lines.forEach((line, number) => line.push(...told.lines[number]));
      if (known.times.length > most) for (const line of [known.times, ...known.lines]) line.shift();
    }
    redraw();
  };

  dark.addEventListener("change", () => {
    for (const each of plots) each.names = null;
    redraw();
  });
  const sized = new ResizeObserver(() => {
    for (const { element, plot } of plots) if (plot && plot.width !== element.clientWidth) plot.setSize({ width: element.clientWidth, height: 200 });
  });
  for (const { element } of plots) sized.observe(element);
})();
