// The module "@arangodb/users": users and their grants, over the HTTP API.
'use strict';

function users(database) {
  const ask = (method, rest, body) => database._connection.ask(method, `/_api/user${rest}`, body);
  const at = (...parts) => parts.map((part) => `/${encodeURIComponent(part)}`).join('');
  const bare = ({ error, ...rest }) => rest;
  const right = (permissions) => ({ grant: permissions === undefined ? 'rw' : permissions });
  return {
    save: (user, passwd, active, extra) => bare(ask('POST', '', { user, passwd: passwd || '', active, extra })),
    replace: (user, passwd, active, extra) => bare(ask('PUT', at(user), { passwd, active, extra })),
    update: (user, passwd, active, extra) => bare(ask('PATCH', at(user), { passwd, active, extra })),
    remove(user) { ask('DELETE', at(user)); },
    document: (user) => bare(ask('GET', at(user))),
    exists: (user) => database._connection.raw('GET', `/_api/user${at(user)}`).code === 200,
    all: () => ask('GET', '').result,
    reload: () => undefined,
    isValid: (user, password) => database._connection.raw('POST', '/_open/auth', { username: user, password }).code === 200,
    grantDatabase(user, name, permissions) { ask('PUT', at(user, 'database', name), right(permissions)); },
    revokeDatabase(user, name) { ask('DELETE', at(user, 'database', name)); },
    grantCollection(user, name, collection, permissions) { ask('PUT', at(user, 'database', name, collection), right(permissions)); },
    revokeCollection(user, name, collection) { ask('DELETE', at(user, 'database', name, collection)); },
    permission(user, name, collection) {
      if (name === undefined) return ask('GET', `${at(user)}/database`).result;
      return ask('GET', collection === undefined ? at(user, 'database', name) : at(user, 'database', name, collection)).result;
    },
    permissionFull: (user) => ask('GET', `${at(user)}/database?full=true`).result,
    currentUser: () => database._connection.user,
  };
}

module.exports = { users };
