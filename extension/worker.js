// @ts-check

/** The service worker: every listener is registered in this first turn. */

import {browser} from './browser.js';
import {Dock} from './dock.js';
import {note} from './refusal.js';

new Dock(browser).start().catch((error) => note('could not begin', error));
