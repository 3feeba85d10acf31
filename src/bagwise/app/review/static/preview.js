// A small preview of an instance, to be seen and heard, where many are shown together.
import { get, media } from "./api.js";
import { h, replace, toast } from "./dom.js";
import { featureRows } from "./plain.js";
import { keyOf, store } from "./store.js";
import { T } from "./texts.js";

// A picture where the media type has one; else a few words or the features.
export function preview(host, row) {
  if (store.run.kinds.picture) {
    const image = h("img", {
      alt: "",
      loading: "lazy",
      decoding: "async",
      src: media("/media/thumb", { bag: row.bag, instance: row.instance, size: 240 }),
    });
    image.addEventListener("error", () => replace(host, h("span", { class: "quiet" }, row.place ?? "")));
    host.append(image);
    return;
  }
  new IntersectionObserver((seen, observer) => {
    if (!seen.some(({ isIntersecting }) => isIntersecting)) return;
    observer.disconnect();
    get("/api/show", { bag: row.bag, instance: row.instance }).then(
      (shown) => {
        if (shown.kind === "text") {
          const { start, end } = shown.spans.find((span) => keyOf(span) === keyOf(row)) ?? {
            start: shown.from,
            end: shown.from,
          };
          host.append(
            h(
              "p",
              { class: "words" },
              [...shown.text]
                .slice(start - shown.from, end - shown.from)
                .join("")
                .slice(0, 220),
            ),
          );
        } else
          host.append(
            h("table", { class: "small" }, h("tbody", {}, featureRows(Object.entries(shown.features ?? {}), 6))),
          );
      },
      () => host.append(h("span", { class: "quiet" }, row.place ?? "")),
    );
  }).observe(host);
}

// Plays an instance; a second time it stops.
export function player() {
  const audio = h("audio", { preload: "none" });
  const play = (row) => {
    if (!store.run.kinds.play || !row) return;
    if (!audio.paused) return audio.pause();
    const from = Math.max(0, row.start - 0.2);
    audio.src = media("/media/clip", { file: row.file, from: from.toFixed(3), to: (row.end + 0.2).toFixed(3) });
    audio.play().catch((error) => {
      if (error.name !== "AbortError") toast(T.cannotPlay, { kind: "bad" }); // paused or changed before it began
    });
  };
  return { element: audio, play };
}
