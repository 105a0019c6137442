// What stands below <main> stays. While somebody marks text to copy it, nothing
// moves.
setInterval(async () => {
  if (document.hidden || !getSelection().isCollapsed) return;
  try {
    const answer = await fetch(location.href, {cache: 'no-store'});
    if (!answer.ok) throw new Error(answer.status);
    const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
    document.querySelector('main').replaceWith(next.querySelector('main'));
    document.title = next.title;
    document.body.classList.remove('stale');
  } catch {
    document.body.classList.add('stale');
  }
}, 5000);
