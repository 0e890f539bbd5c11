/**
 * Says whether msg is a well-formed message. Unknown members are tolerated, so
 * that a newer peer may send more; a known one must be exactly as described.
 * @param {unknown} msg
 * @returns {string | null} null, or what is wrong with the first wrong field
 */
export function validate(msg) {
  if (!isObject(msg)) return 'message: not an object';
  const t = Object.hasOwn(msg, 't') ? msg.t : undefined;
  if (typeof t !== 'string') return 't: not a string';
  if (!Object.hasOwn(MESSAGES, t)) return `t: unknown type ${JSON.stringify(t.slice(0, 64))}`;
  return checkFields(msg, MESSAGES[t], '');
}

function checkFields(value, fields, path) {
  for (const name of Object.keys(fields)) {
    const field = fields[name];
    const at = path === '' ? name : `${path}.${name}`;
    const v = Object.hasOwn(value, name) ? value[name] : undefined;
    if (v === undefined) {
      if (field.optional) continue;
      return `${at}: missing`;
    }
    const wrong = checkValue(v, field, at);
    if (wrong !== null) return wrong;
  }
  return null;
}

function checkValue(v, field, at) {
  if (v === null && field.nullable) return null;
  switch (field.kind) {
    case 'any':
      return null;
    case 'string':
      if (typeof v !== 'string') return `${at}: not a string`;
      if (v.length > (field.max ?? MAX_STRING)) return `${at}: longer than ${field.max ?? MAX_STRING}`;
      if (field.enum && !field.enum.includes(v)) return `${at}: not one of ${field.enum.join(', ')}`;
      return null;
    case 'bool':
      return typeof v === 'boolean' ? null : `${at}: not a boolean`;
    case 'number':
      return Number.isFinite(v) ? null : `${at}: not a number`;
    case 'int':
    case 'uint':
      if (typeof v !== 'number') return `${at}: not a number`;
      if (!Number.isInteger(v)) return `${at}: not an integer`;
      if (field.kind === 'uint' && v < 0) return `${at}: negative`;
      if (v > Number.MAX_SAFE_INTEGER) return `${at}: above 2^53-1`;
      if (v < Number.MIN_SAFE_INTEGER) return `${at}: below -(2^53-1)`;
      return null;
    case 'object':
      return isObject(v) ? checkFields(v, STRUCTS[field.struct], at) : `${at}: not an object`;
    case 'array':
      if (!Array.isArray(v)) return `${at}: not an array`;
      if (v.length > MAX_ARRAY) return `${at}: more than ${MAX_ARRAY} elements`;
      for (let i = 0; i < v.length; i++) {
        const wrong = checkValue(v[i], field.element, `${at}[${i}]`);
        if (wrong !== null) return wrong;
      }
      return null;
    case 'map': {
      if (!isObject(v)) return `${at}: not an object`;
      const keys = Object.keys(v);
      if (keys.length > MAX_ARRAY) return `${at}: more than ${MAX_ARRAY} members`;
      for (const key of keys) {
        const wrong = checkValue(v[key], field.element, `${at}[${JSON.stringify(key.slice(0, 64))}]`);
        if (wrong !== null) return wrong;
      }
      return null;
    }
  }
  return `${at}: of a kind that is not known`;
}

function isObject(v) {
  return typeof v === 'object' && v !== null && !Array.isArray(v);
}
