// Sets theme and view before the first paint, so that nothing flickers. A plain script blocks painting; a module does not.
(function () {
  const root = document.documentElement;
  try {
    const theme = localStorage.getItem('helix.theme');
    if (theme === 'light' || theme === 'dark') root.dataset.theme = theme;
  } catch {
    // This browser stores nothing, so the system's theme applies.
  }
  const found = /^#\/([a-z]+)/.exec(location.hash);
  const old = {
    item: 'session',
    timeline: /[?&]session=/.test(location.hash) ? 'session' : 'sessions',
    facts: /[?&]entity=/.test(location.hash) ? 'subject' : 'decisions',
  };
  const view = found ? old[found[1]] || found[1] : 'home';
  root.dataset.view = view;
  // The modules of the view load at once, not one after the other.
  const turns = ['turns', 'markdown', 'vendor/marked'];
  const modules = {
    home: ['home'],
    ask: ['ask', 'chips', 'fields', 'passage', 'question', 'result', 'signals', ...turns],
    session: ['session', ...turns],
  };
  for (const name of modules[view] || []) {
    const link = document.createElement('link');
    link.rel = 'modulepreload';
    link.href = `/page/${name}.js`;
    document.head.append(link);
  }
})();
