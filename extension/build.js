// @ts-check

/** The hash of the shipped files. The installed copy carries the real one. */
export const BUILD = 'dev';
