'use strict';
for (const table of document.querySelectorAll('table.sort')) {
  const body = table.tBodies[0];
  table.querySelectorAll('th button').forEach((button) => button.addEventListener('click', () => {
    const head = button.closest('th'), column = head.cellIndex, down = head.getAttribute('aria-sort') === 'ascending';
    const value = (row) => { const cell = row.cells[column], text = cell.dataset.value ?? cell.textContent; const number = Number(text); return text === '' || Number.isNaN(number) ? text : number; };
    const rows = [...body.rows].sort((a, b) => { const x = value(a), y = value(b);
      if (x === '' || y === '') return (x === '') - (y === '');
      const order = typeof x === 'number' && typeof y === 'number' ? x - y : String(x).localeCompare(String(y)); return down ? -order : order; });
    table.querySelectorAll('th').forEach((other) => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    body.append(...rows);
  }));
}
for (const filter of document.querySelectorAll('input[type=search]')) {
  filter.addEventListener('input', () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of document.getElementById(filter.dataset.table).tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
  });
}
