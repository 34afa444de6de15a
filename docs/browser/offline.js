// Keeps every part of the page, so that it works without a network after the first visit.
const parts = fetch("parts.json").then((answer) => answer.json());

self.addEventListener("install", (event) =>
  event.waitUntil(
    parts.then(async ({ version, files }) => (await caches.open(version)).addAll(files)).then(() => self.skipWaiting()),
  ),
);
self.addEventListener("activate", (event) =>
  event.waitUntil(
    parts
      .then(async ({ version }) => {
        const old = (await caches.keys()).filter((name) => name.startsWith("opshift-") && name !== version);
        await Promise.all(old.map((name) => caches.delete(name)));
      })
      .then(() => self.clients.claim()),
  ),
);
self.addEventListener("fetch", (event) =>
  event.respondWith(
    caches.match(event.request, { ignoreSearch: true }).then((kept) => kept ?? fetch(event.request)),
  ),
);
