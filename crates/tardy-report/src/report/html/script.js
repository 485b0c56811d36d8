// Adds hover, keys, a legend and zoom to the charts that the page already contains. Text of runs is inserted only as textContent.
'use strict';
(() => {
  const charts = JSON.parse(document.getElementById('charts').textContent);
  const SVG = 'http://www.w3.org/2000/svg';
  const node = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    if (text !== undefined) made.textContent = text;
    return made;
  };

  // The same scales as in chart/scale.rs.
  const place = (scale, value) =>
    scale === 'log' ? Math.log10(Math.max(value, Number.MIN_VALUE))
    : scale === 'signed-log' ? Math.sign(value) * Math.log10(1 + Math.abs(value) / 1000) : value;
  const valueAt = (scale, at) =>
    scale === 'log' ? 10 ** at : scale === 'signed-log' ? Math.sign(at) * (10 ** Math.abs(at) - 1) * 1000 : at;
  const fraction = (axis, value) => {
    const low = place(axis.scale, axis.low), high = place(axis.scale, axis.high);
    return (place(axis.scale, value) - low) / (high - low);
  };
  const inverse = (axis, share) => {
    const low = place(axis.scale, axis.low), high = place(axis.scale, axis.high);
    return valueAt(axis.scale, low + share * (high - low));
  };

  // The same formats as in chart/words.rs, but with more digits, because they show single values.
  const latency = (ns) => {
    const size = Math.abs(ns);
    return size < 1e7 ? (ns / 1e3).toFixed(3) + ' us' : size < 1e10 ? (ns / 1e6).toFixed(3) + ' ms' : (ns / 1e9).toFixed(3) + ' s';
  };
  const time = (seconds, longest, step) => {
    const decimals = Math.min(6, Math.max(0, Math.ceil(-Math.log10(step) - 1e-9)));
    if (longest <= 120) return seconds.toFixed(decimals) + ' s';
    const rounded = Number(Math.max(0, seconds).toFixed(decimals));
    const hours = Math.floor(rounded / 3600), minutes = Math.floor(rounded / 60) % 60, rest = (rounded % 60).toFixed(decimals);
    const two = (text) => (text.split('.')[0].length < 2 ? '0' + text : text);
    return hours > 0 || longest >= 7200 ? `${hours}:${two(String(minutes))}:${two(rest)}` : `${minutes}:${two(rest)}`;
  };
  const share = (value) => (value >= 1e-3 || value === 0 ? `${Number((value * 100).toPrecision(5))} %` : value.toExponential(2));
  const percentile = (oneIn) => {
    if (oneIn <= 1) return 'min';
    const digits = Math.min(12, Math.max(0, Math.ceil(Math.log10(oneIn)) - 1));
    return (100 - 100 / oneIn).toFixed(digits) + ' %';
  };
  const written = (axis, value, view) => {
    switch (axis.values) {
      case 'latency': return latency(value);
      case 'seconds': return time(value, view.longest, (view.high - view.low) / 2000);
      case 'count': return String(Math.round(value));
      case 'share': return share(value);
      case 'one-in': return percentile(value);
      default: return axis.categories[Math.round(value)] || '';
    }
  };

  const nearest = (xs, axis, at) => {
    let low = 0, high = xs.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (xs[middle] <= at) low = middle; else high = middle;
    }
    return Math.abs(fraction(axis, xs[high]) - fraction(axis, at)) < Math.abs(fraction(axis, xs[low]) - fraction(axis, at)) ? high : low;
  };

  // An interval without samples is NaN, with which every comparison is false.
  const numbers = (values) => Float64Array.from(values, (value) => (value === null ? NaN : value));
  for (const chart of charts) {
    for (const layer of chart.layers) if (layer.shape === 'columns') { layer.min = numbers(layer.min); layer.max = numbers(layer.max); }
  }

  // Returns the minimum and the maximum of all intervals from one x to another.
  const extremes = (layer, from, to) => {
    const { min: mins, max: maxs } = layer;
    const begin = Math.max(0, Math.floor((from - layer.begin) / layer.step));
    const end = Math.min(maxs.length, Math.max(begin + 1, Math.ceil((to - layer.begin) / layer.step)));
    let min = Infinity, max = -Infinity;
    for (let index = begin; index < end; index++) {
      if (mins[index] < min) min = mins[index];
      if (maxs[index] > max) max = maxs[index];
    }
    return max === -Infinity ? null : [min, max];
  };

  class Plot {
    constructor(figure, chart) {
      this.figure = figure;
      this.chart = chart;
      this.plot = figure.querySelector('.plot');
      this.tip = figure.querySelector('.tip');
      this.hidden = new Set();
      this.full = [chart.x.low, chart.x.high];
      this.zooms = chart.kind === 'timeline';
      this.cursor = 0.5;
      this.row = 0.5;
      for (const button of figure.querySelectorAll('.legend button')) {
        const index = Number(button.dataset.layer);
        if (button.getAttribute('aria-pressed') === 'false') this.hide(index, true);
        button.addEventListener('click', () => {
          const shown = button.getAttribute('aria-pressed') === 'true';
          button.setAttribute('aria-pressed', String(!shown));
          this.hide(index, shown);
          if (!this.tip.hidden) this.show(false);
          this.follow();
        });
      }
      this.plot.addEventListener('pointermove', (event) => this.moved(event));
      this.plot.addEventListener('pointerleave', () => this.leave());
      this.plot.addEventListener('keydown', (event) => this.key(event));
      this.plot.addEventListener('blur', () => this.leave());
      if (this.zooms) this.listen();
    }

    get view() { return { low: this.chart.x.low, high: this.chart.x.high, longest: this.full[1] }; }
    get svg() { return [...this.plot.querySelectorAll('svg')].find((svg) => getComputedStyle(svg).display !== 'none'); }
    area(svg) {
      const [left, top, width, height] = svg.dataset.area.split(' ').map(Number);
      return { left, top, width, height };
    }

    hide(index, isHidden) {
      const { layers } = this.chart;
      const together = [index];
      for (let next = index + 1; next < layers.length && layers[next].companion; next++) together.push(next);
      for (const layer of together) {
        if (isHidden) this.hidden.add(layer); else this.hidden.delete(layer);
        for (const group of this.plot.querySelectorAll(`[data-layer="${layer}"]`)) {
          if (isHidden) group.setAttribute('display', 'none'); else group.removeAttribute('display');
        }
      }
    }

    // Returns the position of the pointer in the area between the axes, from 0 to 1.
    locate(event) {
      const svg = this.svg, box = svg.getBoundingClientRect(), area = this.area(svg);
      const zoom = svg.viewBox.baseVal.width / box.width;
      return {
        x: ((event.clientX - box.left) * zoom - area.left) / area.width,
        y: 1 - ((event.clientY - box.top) * zoom - area.top) / area.height,
      };
    }

    moved(event) {
      const at = this.locate(event);
      if (at.x < -0.02 || at.x > 1.02 || at.y < -0.05 || at.y > 1.05) return this.leave();
      this.cursor = Math.min(1, Math.max(0, at.x));
      this.row = Math.min(1, Math.max(0, at.y));
      this.show(false);
    }

    leave() {
      this.tip.hidden = true;
      for (const line of this.plot.querySelectorAll('.cursor')) line.remove();
    }

    rows(x, y, step) {
      const { chart } = this, rows = [], axis = chart.y;
      let title = '';
      chart.layers.forEach((layer, index) => {
        if (this.hidden.has(index)) return;
        const say = (text, name = layer.name) => rows.push({ index, name, text });
        switch (layer.shape) {
          case 'line': case 'steps': case 'steps-before': case 'dots': {
            if (layer.x.length === 0) return;
            const found = nearest(layer.x, chart.x, x);
            title = title || written(chart.x, layer.x[found], this.view);
            const own = written(chart.x, layer.x[found], this.view);
            say(written(axis, layer.y[found], this.view) + (own === title ? '' : ` (${own})`));
            break;
          }
          case 'band': {
            if (layer.x.length === 0) return;
            const found = nearest(layer.x, chart.x, x);
            if (x > layer.x[layer.x.length - 1] * 1.05) return;
            say(`${written(axis, layer.low[found], this.view)} – ${written(axis, layer.high[found], this.view)}`);
            break;
          }
          case 'bins': {
            let found = nearest(layer.x, chart.x, x);
            if (layer.x[found] > x) found--;
            if (found < 0 || found >= layer.y.length) return;
            title = `${latency(layer.x[found])} – ${latency(layer.x[found + 1])}`;
            say(String(layer.y[found]));
            break;
          }
          case 'columns': {
            const pair = extremes(layer, x - step / 2, x + step / 2);
            title = written(chart.x, x, this.view);
            say(pair ? `${latency(pair[0])} – ${latency(pair[1])}` : 'no sample');
            break;
          }
          case 'cells': {
            const cell = layer.cells.find(([x0, x1, y0, y1]) => x0 <= x && x < x1 && y0 <= y && y < y1);
            title = written(chart.x, x, this.view);
            if (layer.latencies) say(cell ? latency(cell[4]) : 'no sample', cell ? `cpus ${cell[2]} to ${cell[3] - 1}` : undefined);
            else say(cell ? `${latency(cell[2])} – ${latency(cell[3])}: ${cell[4]}` : 'none');
            break;
          }
          case 'ranges': {
            const range = layer.ranges.find(([at]) => Math.round(at) === Math.round(x));
            title = chart.x.categories[Math.round(x)] || '';
            if (range) {
              const [, , min, median, max, average, tail] = range;
              const said = [['min', min], ['median', median], ['average', average], ['99.9 %', tail], ['max', max]].filter(([, value]) => value !== null);
              say(said.map(([, value]) => latency(value)).join(' / '), `${layer.name}: ${said.map(([name]) => name).join(' / ')}`);
            }
            break;
          }
        }
      });
      return { title, rows };
    }

    show(isSpoken) {
      const svg = this.svg;
      if (!svg) return;
      const area = this.area(svg), { chart } = this;
      const x = inverse(chart.x, this.cursor), y = inverse(chart.y, this.row);
      const { title, rows } = this.rows(x, y, (chart.x.high - chart.x.low) / area.width);
      const lines = [document.createElement('b')];
      lines[0].textContent = title;
      for (const row of rows.slice(0, 12)) {
        const line = document.createElement('div'), swatch = document.createElement('span');
        const button = this.figure.querySelector(`.legend [data-layer="${row.index}"] .swatch`);
        swatch.className = button ? button.className : 'swatch';
        if (button) swatch.setAttribute('style', button.getAttribute('style'));
        else swatch.style.visibility = 'hidden';
        const name = document.createElement('span'), text = document.createElement('span');
        name.textContent = row.name;
        text.textContent = row.text;
        line.append(swatch, name, text);
        lines.push(line);
      }
      this.tip.replaceChildren(...lines);
      this.tip.setAttribute('aria-live', isSpoken ? 'polite' : 'off');
      this.tip.hidden = false;
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      const at = area.left + this.cursor * area.width;
      const room = this.plot.clientWidth, width = this.tip.offsetWidth;
      const right = at * scale + 14;
      this.tip.style.left = `${Math.max(0, right + width > room ? at * scale - width - 14 : right)}px`;
      this.tip.style.top = `${area.top * scale + 6}px`;
      for (const line of this.plot.querySelectorAll('.cursor')) line.remove();
      svg.append(node('line', { class: 'cursor', x1: at, x2: at, y1: area.top, y2: area.top + area.height, 'pointer-events': 'none' }));
    }

    key(event) {
      const step = event.shiftKey ? 0.1 : 0.01;
      const clamp = (value) => Math.min(1, Math.max(0, value));
      switch (event.key) {
        case 'ArrowLeft': this.cursor = clamp(this.cursor - step); break;
        case 'ArrowRight': this.cursor = clamp(this.cursor + step); break;
        case 'ArrowUp': this.row = clamp(this.row + step); break;
        case 'ArrowDown': this.row = clamp(this.row - step); break;
        case 'Home': this.cursor = 0; break;
        case 'End': this.cursor = 1; break;
        case 'Escape': this.leave(); return;
        case '+': case '=': if (!this.zooms) return; this.zoom(0.5, this.cursor); break;
        case '-': if (!this.zooms) return; this.zoom(2, this.cursor); break;
        case '0': if (!this.zooms) return; this.look(...this.full); break;
        default: return;
      }
      event.preventDefault();
      this.show(true);
    }

    // Handles the zoom of a time line: dragging selects an interval; pinching and buttons zoom; dragging with two fingers or Shift moves the view.
    listen() {
      this.plot.classList.add('zooms');
      const fingers = new Map();
      let begin = null, pinch = null;
      const act = { in: () => this.zoom(0.5, 0.5), out: () => this.zoom(2, 0.5), all: () => this.look(...this.full),
        left: () => this.pan(-0.3), right: () => this.pan(0.3) };
      for (const button of this.figure.querySelectorAll('.tools button')) button.addEventListener('click', act[button.dataset.do]);
      const clear = () => { for (const band of this.plot.querySelectorAll('.band-select')) band.remove(); };
      this.plot.addEventListener('pointerdown', (event) => {
        fingers.set(event.pointerId, event);
        if (event.pointerType === 'mouse' && event.button === 0) {
          begin = this.locate(event).x;
          this.plot.setPointerCapture(event.pointerId);
        }
        if (fingers.size === 2) {
          const [a, b] = [...fingers.values()].map((finger) => this.locate(finger).x);
          pinch = { values: [inverse(this.chart.x, a), inverse(this.chart.x, b)] };
        }
      });
      this.plot.addEventListener('pointermove', (event) => {
        if (!fingers.has(event.pointerId)) return;
        fingers.set(event.pointerId, event);
        if (pinch && fingers.size === 2) {
          const [a, b] = [...fingers.values()].map((finger) => this.locate(finger).x);
          if (Math.abs(a - b) < 0.02) return;
          const length = (pinch.values[1] - pinch.values[0]) / (b - a);
          this.look(pinch.values[0] - a * length, pinch.values[0] + (1 - a) * length);
        } else if (begin !== null && event.shiftKey) {
          const at = this.locate(event).x;
          this.pan(begin - at);
          begin = at;
        } else if (begin !== null) {
          clear();
          const svg = this.svg, area = this.area(svg), to = Math.min(1, Math.max(0, this.locate(event).x));
          const [left, right] = [Math.min(begin, to), Math.max(begin, to)];
          svg.append(node('rect', { class: 'band-select', x: area.left + left * area.width, y: area.top,
            width: (right - left) * area.width, height: area.height }));
        }
      });
      const end = (event) => {
        fingers.delete(event.pointerId);
        if (fingers.size < 2) pinch = null;
        clear();
        if (begin !== null && event.type === 'pointerup' && !event.shiftKey) {
          const to = this.locate(event).x, [left, right] = [Math.max(0, Math.min(begin, to)), Math.min(1, Math.max(begin, to))];
          if (right - left > 0.01) this.look(inverse(this.chart.x, left), inverse(this.chart.x, right));
        }
        begin = null;
      };
      this.plot.addEventListener('pointerup', end);
      this.plot.addEventListener('pointercancel', end);
      this.plot.addEventListener('dblclick', () => this.look(...this.full));
      // Another width or colour scheme can show another drawing, which still has the interval before the zoom.
      addEventListener('resize', () => this.follow());
      matchMedia('(prefers-color-scheme:dark)').addEventListener('change', () => this.follow());
      // Print uses paths, because printers have a higher resolution than the canvas.
      addEventListener('beforeprint', () => { if (this.isMoved) for (const svg of this.plot.querySelectorAll('svg')) this.redraw(svg, true); });
      addEventListener('afterprint', () => this.follow());
      this.plot.addEventListener('wheel', (event) => {
        // Without Ctrl or Cmd, the wheel scrolls the page.
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 90), this.locate(event).x);
      }, { passive: false });
    }

    zoom(factor, around) {
      const { low, high } = this.chart.x, at = low + around * (high - low);
      this.look(at - (at - low) * factor, at + (high - at) * factor);
    }

    pan(share) {
      const { low, high } = this.chart.x, by = share * (high - low);
      const bounded = Math.min(this.full[1] - high, Math.max(this.full[0] - low, by));
      this.look(low + bounded, high + bounded);
    }

    look(low, high) {
      const [first, last] = this.full, columns = this.chart.layers.filter((layer) => layer.shape === 'columns');
      // At least eight intervals are shown.
      const shortest = Math.min(last - first, 8 * Math.min(...columns.map((layer) => layer.step)));
      const middle = (low + high) / 2, length = Math.max(shortest, high - low);
      low = Math.max(first, middle - length / 2);
      high = Math.min(last, low + length);
      low = Math.max(first, high - length);
      this.chart.x = { ...this.chart.x, low, high };
      this.isMoved = true;
      this.follow();
    }

    // Draws once per frame, whatever the number of changes since the last frame.
    follow() {
      if (!this.isMoved || this.frame) return;
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        if (this.svg) this.redraw(this.svg, false);
      });
    }

    redraw(svg, isForPaper) {
      const { chart } = this, area = this.area(svg), bottom = area.top + area.height;
      const px = (value) => area.left + fraction(chart.x, value) * area.width;
      const py = (value) => area.top + (1 - fraction(chart.y, value)) * area.height;
      svg.classList.toggle('on-canvas', !isForPaper);
      if (isForPaper) this.redrawPaths(svg, area, py); else this.paint(svg, area);
      this.redrawTime(svg, area, bottom, px);
      this.redrawSpans(svg, area, bottom, px);
      this.redrawMarks(svg, area, px, py);
    }

    // Returns the minimum and the maximum in each of `count` columns of pixels.
    *pixels(layer, count) {
      const { low, high } = this.chart.x, per = (high - low) / count;
      for (let column = 0; column < count; column++) yield extremes(layer, low + column * per, low + (column + 1) * per);
    }

    // Draws on a canvas instead of the paths: rectangles take a tenth of the time of paths that change with every frame.
    paint(svg, area) {
      const { chart } = this;
      let canvas = svg.querySelector('canvas');
      if (!canvas) {
        const holder = node('foreignObject', { x: area.left, y: area.top, width: area.width, height: area.height });
        canvas = document.createElement('canvas');
        holder.append(canvas);
        svg.querySelector('.layers').prepend(holder);
      }
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width * devicePixelRatio;
      const width = Math.max(1, Math.round(area.width * scale)), height = Math.max(1, Math.round(area.height * scale));
      if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
      const context = canvas.getContext('2d'), pen = Math.max(1, Math.round(1.1 * scale));
      const up = (value) => Math.floor((1 - fraction(chart.y, value)) * height);
      context.clearRect(0, 0, width, height);
      chart.layers.forEach((layer, index) => {
        if (layer.shape !== 'columns' || this.hidden.has(index)) return;
        context.fillStyle = getComputedStyle(svg.querySelector(`[data-layer="${index}"] path`)).stroke;
        let x = 0, before = null;
        for (const pair of this.pixels(layer, width)) {
          if (pair) {
            const top = up(pair[1]), from = before === null ? top : before;
            context.globalAlpha = 0.3;
            context.fillRect(x, top, 1, Math.max(pen, up(pair[0]) - top));
            context.globalAlpha = 1;
            context.fillRect(x, Math.min(top, from), pen, Math.abs(top - from) + pen);
          }
          before = pair && up(pair[1]);
          x++;
        }
      });
    }

    redrawPaths(svg, area, py) {
      this.chart.layers.forEach((layer, index) => {
        if (layer.shape !== 'columns') return;
        const [bars, edge] = svg.querySelectorAll(`[data-layer="${index}"] path`);
        let barsD = '', edgeD = '', pen = 'M', column = 0;
        for (const pair of this.pixels(layer, Math.round(area.width))) {
          const x = (area.left + column++ + 0.5).toFixed(1);
          if (!pair) { pen = 'M'; continue; }
          const top = py(pair[1]), low = Math.max(py(pair[0]), top + 1);
          barsD += `M${x} ${low.toFixed(1)}V${top.toFixed(1)}`;
          edgeD += `${pen}${x} ${top.toFixed(1)}`;
          pen = 'L';
        }
        bars.setAttribute('d', barsD || 'M0 0');
        edge.setAttribute('d', edgeD || 'M0 0');
      });
    }

    redrawTime(svg, area, bottom, px) {
      const { low, high } = this.chart.x, group = svg.querySelector('.axis.x');
      const title = group.lastElementChild, base = group.firstElementChild, made = [];
      const wanted = Math.max(2, Math.floor(area.width / 85)), raw = (high - low) / wanted;
      const rounds = [];
      for (let power = -6; power < 1; power++) for (const digit of [1, 2, 5]) rounds.push(digit * 10 ** power);
      rounds.push(10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 432000, 864000);
      const step = rounds.find((round) => round >= raw * 0.999) || raw;
      for (let index = Math.ceil(low / step - 1e-9); index * step <= high * (1 + 1e-12); index++) {
        const value = index * step, x = px(value);
        made.push(node('path', { d: `M${x} ${bottom}V${bottom + 5}`, stroke: 'var(--muted)', fill: 'none' }));
        made.push(node('path', { d: `M${x} ${area.top}V${bottom}`, stroke: 'var(--grid)', fill: 'none' }));
        const label = { x: Math.min(x, area.left + area.width - 12), y: bottom + 18, 'font-size': 12, fill: 'var(--muted)', 'text-anchor': 'middle' };
        made.push(node('text', label, time(value, this.full[1], step)));
      }
      group.replaceChildren(base, ...made, title);
    }

    redrawSpans(svg, area, bottom, px) {
      const group = svg.querySelector('.spans'), made = [];
      this.chart.spans.forEach(([name, begin, end], index) => {
        const left = Math.max(area.left, px(begin)), right = Math.min(area.left + area.width, px(end));
        if (right <= left) return;
        if (index % 2 === 0) made.push(node('rect', { x: left, y: area.top, width: right - left, height: area.height, fill: 'var(--shade)' }));
        made.push(node('path', { d: `M${left} ${area.top}V${bottom}`, stroke: 'var(--grid)', fill: 'none' }));
        const letters = Math.floor((right - left - 4) / 6.2);
        if (letters < 3 && letters < name.length) return;
        const text = name.length > letters ? name.slice(0, letters - 1) + '…' : name;
        made.push(node('text', { x: left + 2, y: area.top - 5, 'font-size': 11, fill: 'var(--muted)' }, text));
      });
      group.replaceChildren(...made);
    }

    redrawMarks(svg, area, px, py) {
      const group = svg.querySelector('.marks'), made = [];
      for (const [x, y, text] of this.chart.marks) {
        const at = px(x), up = py(y);
        if (at < area.left - 1 || at > area.left + area.width + 1) continue;
        made.push(node('circle', { cx: at, cy: up, r: 4.5, fill: 'none', stroke: 'var(--alarm)', 'stroke-width': 1.8 }));
        const half = text.length * 3.4, label = { y: up - area.top > 40 ? up - 10 : up + 20, 'font-size': 12, 'font-weight': 600, fill: 'var(--ink)',
          'paint-order': 'stroke', stroke: 'var(--surface)', 'stroke-width': 3.5, 'text-anchor': 'middle' };
        label.x = Math.max(area.left + half, Math.min(area.left + area.width - half, at));
        made.push(node('text', label, text));
      }
      group.replaceChildren(...made);
    }
  }

  for (const figure of document.querySelectorAll('figure[data-chart]')) new Plot(figure, charts[Number(figure.dataset.chart)]);

  // All folded parts are open in print.
  let closed = [];
  addEventListener('beforeprint', () => {
    closed = [...document.querySelectorAll('details:not([open])')];
    for (const details of closed) details.open = true;
  });
  addEventListener('afterprint', () => { for (const details of closed) details.open = false; });
  document.documentElement.dataset.ready = 'true';
})();
