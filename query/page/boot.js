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
  const old = { item: 'session', timeline: 'sessions', facts: 'subject' };
  root.dataset.view = view ? old[view[1]] || view[1] : 'home';
})();
