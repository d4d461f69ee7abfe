// Sets theme and view before the first paint, so that nothing flickers. A plain script blocks painting; a module does not.
(function () {
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem('helix.theme');
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch {
    // This browser stores nothing, so the system's theme applies.
  }
  const view = /^#\/([a-z]+)/.exec(location.hash);
  root.dataset.view = view ? view[1] : 'ask';
})();
