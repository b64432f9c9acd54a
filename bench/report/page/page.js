'use strict';

/* --- tables: a click on a head sorts; words and choices filter --- */

const numberOrText = (cell) => {
  const text = cell.dataset.value ?? cell.textContent, number = Number(text);
  return text.trim() === '' ? '' : Number.isNaN(number) ? text : number;
};

const compare = (x, y) => typeof x === typeof y ? (x > y) - (x < y) : (String(x) > String(y)) - (String(x) < String(y));

function sortBy(table, head) {
  const down = head.getAttribute('aria-sort') === 'ascending', column = head.cellIndex, body = table.tBodies[0];
  const rows = [...body.rows].sort((a, b) => {
    const x = numberOrText(a.cells[column]), y = numberOrText(b.cells[column]);
    if (x === '' || y === '') return (x === '') - (y === '');   /* what is not known stays last */
    return down ? compare(y, x) : compare(x, y);
  });
  for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
  head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
  body.append(...rows);
}

for (const table of document.querySelectorAll('table.sort')) {
  table.tHead.addEventListener('click', (event) => {
    const head = event.target.closest('th');
    if (head) sortBy(table, head);
  });
}

function filter(table) {
  const controls = document.querySelectorAll('[data-table="' + table.id + '"]');
  for (const row of table.tBodies[0].rows) {
    row.hidden = ![...controls].every((control) => {
      if (control.dataset.column) return control.value === '' || row.cells[control.dataset.column].textContent === control.value;
      return control.value.toLowerCase().split(/\s+/).every((word) => row.textContent.toLowerCase().includes(word));
    });
  }
}

for (const control of document.querySelectorAll('[data-table]')) {
  const table = document.getElementById(control.dataset.table);
  if (control.dataset.column) {
    const texts = new Set([...table.tBodies[0].rows].map((row) => row.cells[control.dataset.column].textContent));
    for (const text of [...texts].sort()) control.append(new Option(text));
  }
  control.addEventListener('input', () => filter(table));
}

/* --- numbers of pictures: a table when they are opened --- */

const parsed = new WeakMap();

function numbersOf(figure) {
  if (!parsed.has(figure)) {
    parsed.set(figure, figure.querySelector('.tsv').textContent.replace(/\n$/, '').split('\n').map((line) => line.split('\t')));
  }
  return parsed.get(figure);
}

function makeTable(pre) {
  const lines = numbersOf(pre.closest('figure')), table = document.createElement('table'), wide = document.createElement('div');
  const body = table.createTBody(), heads = table.createTHead().insertRow();
  for (const text of lines[0]) heads.append(Object.assign(document.createElement('th'), {textContent: text}));
  for (const line of lines.slice(1)) {
    const row = body.insertRow();
    for (const text of line) {
      const cell = row.insertCell();
      cell.textContent = text;
      if (Number.isNaN(Number(text))) cell.className = 't';
    }
  }
  wide.className = 'wide';
  wide.append(table);
  pre.replaceWith(wide);
}

document.addEventListener('toggle', (event) => {
  const pre = event.target.open && event.target.querySelector(':scope > .tsv');
  if (pre) {
    numbersOf(pre.closest('figure'));
    makeTable(pre);
  }
}, true);

/* --- what the pointer is at --- */

const tip = document.getElementById('tip');

/* The square of a heat map: its place and its number. */
function square(map, svg, event) {
  const {size, left, top, rows, columns, unit} = map.dataset, box = svg.getBoundingClientRect();
  const scale = svg.viewBox.baseVal.width / box.width, lines = numbersOf(svg.closest('figure'));
  const column = Math.floor(((event.clientX - box.left) * scale - left) / size), row = Math.floor(((event.clientY - box.top) * scale - top) / size);
  if (column < 0 || row < 0 || row + 1 >= lines.length || column + 1 >= lines[0].length) return '';
  const value = lines[row + 1][column + 1];
  return `${rows} ${lines[row + 1][0]}, ${columns} ${lines[0][column + 1]}: ${value === '' ? 'nothing' : value + ' ' + unit}`;
}

document.addEventListener('pointermove', (event) => {
  const svg = event.target.closest?.('svg'), map = svg?.closest('.map');
  const text = map ? square(map, svg, event) : event.target.closest?.('[data-tip]')?.dataset.tip ?? '';
  tip.hidden = text === '';
  tip.textContent = text;
  tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 4)) + 'px';
  tip.style.top = Math.max(4, event.clientY - tip.offsetHeight - 10) + 'px';
});
document.addEventListener('pointerdown', (event) => { if (!event.target.closest?.('svg')) tip.hidden = true; });
