// Runs before the first paint: neither the theme nor the view changes under the reader's eyes. No module, so it blocks.
(function () {
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem('helix.theme');
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch {
    // Storage is off in this browser: the system's theme it is.
  }
  const view = /^#\/([a-z]+)/.exec(location.hash);
  root.dataset.view = view ? view[1] : 'ask';
})();
