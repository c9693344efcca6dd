// The search of the site runs in a worker, which no browser starts for a page that was opened from a folder. There, an
// invisible frame does the same: it has the interface of a worker as far as the search uses it.
"use strict";

if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      const inner = frame.contentWindow;
      inner.importScripts = (...addresses) =>
        addresses.reduce((before, address) => before.then(() => load(inner.document, address)), Promise.resolve());
      inner.postMessage = (data) => {
        const event = new MessageEvent("message", { data });
        setTimeout(() => {
          this.dispatchEvent(event);
          this.onmessage?.(event);
        });
      };
      const started = load(inner.document, new URL(url, location).href);
      // Messages wait until the script is there to hear them.
      this.postMessage = (data) => started.then(() => inner.dispatchEvent(new MessageEvent("message", { data })));
      this.terminate = () => frame.remove();
    }
  }

  const load = (page, address) =>
    new Promise((resolve, reject) => {
      const script = page.createElement("script");
      script.src = address;
      script.addEventListener("load", resolve);
      script.addEventListener("error", reject);
      page.body.append(script);
    });

  window.IFrameWorker = IFrameWorker;
  window.Worker = IFrameWorker;
}
