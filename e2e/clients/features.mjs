// Tries one thing after another and notes what became of each: "works", or the message.
const WITHIN_MS = 15_000;

export async function tryAll(features) {
  const out = {};
  for (const [name, run] of Object.entries(features)) {
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error('no end in time')), WITHIN_MS);
    });
    try {
      const got = await Promise.race([run(), late]);
      out[name] = got === true || got === undefined ? 'works' : `got ${JSON.stringify(got)}`;
    } catch (error) {
      out[name] = String(error.message ?? error).split('\n')[0].slice(0, 300);
    } finally {
      clearTimeout(timer);
    }
  }
  return out;
}
