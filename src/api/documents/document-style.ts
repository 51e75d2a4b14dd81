// How documents look.

export const documentStyle = `
:root { color-scheme: light dark; --soft: light-dark(#5b6472, #9aa4b2); --line: light-dark(#d9dee5, #333a45); --code: light-dark(#f3f5f8, #1b2027); }
body { margin: 0; display: grid; grid-template-columns: 15rem minmax(0, 1fr); font: 16px/1.6 system-ui, sans-serif; background: light-dark(#fff, #12161c); color: light-dark(#1c2430, #e3e8ef); }
nav { padding: 1.5rem 1rem; border-right: 1px solid var(--line); }
nav ul { list-style: none; margin: 1rem 0; padding: 0; }
nav li { margin: 0.35rem 0; }
main { padding: 1.5rem 2rem 4rem; max-width: 60rem; }
a { color: light-dark(#0b5bb5, #7ab8ff); }
h1, h2, h3 { line-height: 1.25; margin: 2rem 0 0.75rem; }
h1 { margin-top: 0; }
pre, code { font: 0.9em/1.5 ui-monospace, monospace; background: var(--code); border-radius: 4px; }
code { padding: 0.1em 0.3em; }
pre { padding: 0.8rem 1rem; overflow-x: auto; }
pre code { padding: 0; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: 0.35rem 0.7rem; text-align: left; vertical-align: top; }
blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--soft); }
img { max-width: 100%; }
@media (max-width: 50rem) { body { grid-template-columns: minmax(0, 1fr); } nav { border: 0; border-bottom: 1px solid var(--line); } main { padding: 1rem; } }
`;
