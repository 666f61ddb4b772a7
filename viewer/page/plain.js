document.getElementById('verdict').textContent =
  JSON.parse(document.getElementById('tidemark').textContent).verdict.join('\n');
