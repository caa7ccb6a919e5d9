// stompit, a client library for Node, against the broker.
//
// Each entry of `checks` is one check. With --flip the first comparison of every check is turned round,
// so that each of them must fail: a check that passes even then proves nothing.

'use strict';

const http = require('node:http');
const path = require('node:path');
const { AsyncLocalStorage } = require('node:async_hooks');

const modules = path.join(__dirname, '..', '..', '.tools', 'node', 'node_modules');
const stompit = require(path.join(modules, 'stompit'));

const TIMEOUT_MS = 10_000;
const CHECKS_AT_ONCE = 4;
// Long enough to notice a message that must not come.
const QUIET_MS = 300;
// What the broker is told for these checks: shorter than by default, to see several of them.
const HEART_BEAT_MS = 1000;
const SUBSCRIPTIONS_MAX = 50;
const VERSIONS = ['1.0', '1.1', '1.2'];

const running = new AsyncLocalStorage();

function holds(condition, what) {
  const state = running.getStore();
  const flipped = state.flip;
  state.flip = false;
  if (Boolean(condition) === flipped) {
    throw new Error((flipped ? 'flipped: ' : '') + what);
  }
}

function same(actual, expected, what = '') {
  const [got, wanted] = [actual, expected].map((value) => JSON.stringify(value));
  holds(got === wanted, `${what} expected ${wanted}, got ${got}`.trim());
}

function within(promise, what, ms = TIMEOUT_MS) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${ms} ms: ${what}`)), ms);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function waitUntil(condition, what) {
  const end = Date.now() + TIMEOUT_MS;
  while (!(await condition())) {
    if (Date.now() > end) {
      throw new Error(`not within ${TIMEOUT_MS} ms: ${what}`);
    }
    await pause(5);
  }
}

// One connection that keeps what comes.
class Client {
  static connect(version = '1.2', headers = {}, options = {}) {
    const connectHeaders = { 'accept-version': version, host: '/', ...headers };
    const opening = new Promise((resolve, reject) => {
      stompit.connect({ ...place.stomp, connectHeaders, ...options }, (error, client) => {
        if (error) {
          reject(error);
        } else {
          resolve(new Client(client));
        }
      });
    });
    return within(opening, 'CONNECTED');
  }

  constructor(client) {
    this.client = client;
    this.messages = [];
    this.waiters = [];
    this.gone = new Promise((resolve) => {
      client.on('error', resolve);
      client.on('end', () => resolve(null));
    });
  }

  send(destination, body, headers = {}) {
    const sending = new Promise((resolve, reject) => {
      const frame = this.client.send(
        { destination, 'content-length': Buffer.byteLength(body), ...headers },
        { onReceipt: resolve, onError: reject },
      );
      frame.end(body);
    });
    return within(sending, 'the receipt of SEND');
  }

  // Every frame may ask for a receipt; the library offers it for few of them.
  request(command, headers) {
    const asking = new Promise((resolve, reject) => {
      this.client.sendFrame(command, headers, { onReceipt: resolve, onError: reject }).end();
    });
    return within(asking, `the receipt of ${command}`);
  }

  subscribe(destination, ack = 'auto', headers = {}) {
    return this.client.subscribe({ destination, ack, ...headers }, (error, message) => {
      if (error) {
        return;
      }
      const pieces = [];
      message.on('data', (piece) => pieces.push(piece));
      message.on('end', () => {
        this.messages.push({ frame: message, headers: message.headers, body: Buffer.concat(pieces) });
        this.waiters.shift()?.();
      });
    });
  }

  async receive() {
    while (this.messages.length === 0) {
      await within(new Promise((resolve) => this.waiters.push(resolve)), 'a message');
    }
    return this.messages.shift();
  }

  async bodies(count) {
    const all = [];
    while (all.length < count) {
      all.push((await this.receive()).body.toString());
    }
    return all;
  }

  async isQuiet() {
    await pause(QUIET_MS);
    return this.messages.length === 0;
  }

  answer(kind, message, headers = {}) {
    const answering = new Promise((resolve, reject) => {
      this.client[kind](message.frame, headers, { onReceipt: resolve, onError: reject });
    });
    return within(answering, `the receipt of ${kind}`);
  }

  ack(message, headers) {
    return this.answer('ack', message, headers);
  }

  nack(message, headers) {
    return this.answer('nack', message, headers);
  }

  disconnect() {
    const leaving = new Promise((resolve, reject) => {
      this.client.disconnect((error) => (error ? reject(error) : resolve()));
    });
    return within(leaving, 'the receipt of DISCONNECT');
  }

  drop() {
    this.client.destroy();
  }

  error() {
    return within(this.gone, 'an ERROR');
  }
}

function rest(url) {
  const asking = new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${place.token}` };
    const request = http.get({ ...place.http, path: url, headers }, (answer) => {
      let text = '';
      answer.on('data', (piece) => (text += piece));
      answer.on('end', () => resolve(JSON.parse(text)));
    });
    request.on('error', reject);
  });
  return within(asking, url);
}

async function held(name) {
  const found = (await rest('/api/v1/queues')).queues.find((queue) => queue.name === name);
  return found ? found.waiting + found.unacknowledged : 0;
}

const upTo = (count) => Array.from({ length: count }, (_, number) => String(number));

const checks = {
  async connect_with_each_version() {
    for (const version of VERSIONS) {
      const client = await Client.connect(version);
      same(client.client.headers.version, version);
      await client.disconnect();
      same(await client.gone, null, 'no error');
    }
  },

  async the_best_of_several_versions_is_taken() {
    const client = await Client.connect('1.0,1.1,1.2');
    same(client.client.headers.version, '1.2');
  },

  async send_and_receive_with_each_version() {
    for (const version of VERSIONS) {
      const client = await Client.connect(version);
      client.subscribe(`/queue/j.each-${version}`);
      await client.send(`/queue/j.each-${version}`, 'grüße, 世界', { kind: 'greeting' });
      const message = await client.receive();
      same(message.body.toString(), 'grüße, 世界', version);
      same(message.headers.kind, 'greeting', version);
      await client.disconnect();
    }
  },

  async two_versions_at_once_on_one_queue() {
    const [old, young] = [await Client.connect('1.0'), await Client.connect('1.2')];
    old.subscribe('/queue/j.two-versions', 'client');
    await old.send('/queue/j.two-versions.sync', 'x');
    young.subscribe('/queue/j.two-versions', 'client-individual');
    await young.send('/queue/j.two-versions.sync', 'x');
    for (const number of upTo(20)) {
      await young.send('/queue/j.two-versions', number);
    }
    const got = [];
    for (let turn = 0; turn < 10; turn += 1) {
      for (const client of [old, young]) {
        const message = await client.receive();
        got.push(message.body.toString());
        await client.ack(message);
      }
    }
    same(got.sort((a, b) => a - b), upTo(20));
    same(await held('j.two-versions'), 0);
  },

  async heart_beats_keep_the_connection() {
    for (const version of ['1.1', '1.2']) {
      const client = await Client.connect(version, { 'heart-beat': `${HEART_BEAT_MS},${HEART_BEAT_MS}` });
      same(client.client.headers['heart-beat'], `${HEART_BEAT_MS},${HEART_BEAT_MS}`);
      const before = client.client.getTransportSocket().bytesRead;
      await waitUntil(
        () => client.client.getTransportSocket().bytesRead >= before + 4,
        'four heart-beats of the server',
      );
      client.subscribe('/queue/j.heart');
      await client.send('/queue/j.heart', 'still here');
      same((await client.receive()).body.toString(), 'still here', version);
      await client.disconnect();
    }
  },

  async a_client_that_stops_beating_is_closed_and_told_why() {
    const client = await Client.connect('1.2', { 'heart-beat': `${HEART_BEAT_MS},0` });
    client.client._output.heartbeat = () => {};
    const error = await client.error();
    same(error.message, 'heart-beat missing');
  },

  async ack_auto_settles_on_delivery() {
    const client = await Client.connect();
    client.subscribe('/queue/j.auto');
    await client.send('/queue/j.auto', 'x');
    same((await client.receive()).headers.ack, undefined, 'no ack header in auto mode');
    await waitUntil(async () => (await held('j.auto')) === 0, 'the message is settled');
  },

  async ack_client_covers_all_before() {
    for (const version of VERSIONS) {
      const name = `j.client-${version}`;
      const client = await Client.connect(version);
      client.subscribe(`/queue/${name}`, 'client');
      for (const number of upTo(5)) {
        await client.send(`/queue/${name}`, number);
      }
      const messages = [];
      while (messages.length < 5) {
        messages.push(await client.receive());
      }
      await client.ack(messages[2]);
      same(await held(name), 2, version);
      client.drop();
      const again = await Client.connect(version);
      again.subscribe(`/queue/${name}`, 'client');
      const left = [await again.receive(), await again.receive()];
      same(left.map((m) => [m.body.toString(), m.headers.redelivered]), [['3', 'true'], ['4', 'true']]);
    }
  },

  async ack_individual_covers_one() {
    const client = await Client.connect();
    client.subscribe('/queue/j.individual', 'client-individual');
    for (const number of upTo(3)) {
      await client.send('/queue/j.individual', number);
    }
    const messages = [await client.receive(), await client.receive(), await client.receive()];
    await client.ack(messages[1]);
    same(await held('j.individual'), 2);
    client.drop();
    const again = await Client.connect();
    again.subscribe('/queue/j.individual');
    same(await again.bodies(2), ['0', '2']);
  },

  async transactions_commit_and_abort() {
    const [client, other] = [await Client.connect(), await Client.connect()];
    other.subscribe('/queue/j.transaction');
    const aborted = client.client.begin();
    await client.send('/queue/j.transaction', 'never', { transaction: aborted.id });
    aborted.abort();
    const transaction = client.client.begin();
    await client.send('/queue/j.transaction', 'a', { transaction: transaction.id });
    await client.send('/queue/j.transaction', 'b', { transaction: transaction.id });
    same(await other.isQuiet(), true, 'nothing before the commit');
    transaction.commit();
    same(await other.bodies(2), ['a', 'b']);
    same(await other.isQuiet(), true, 'nothing of what was aborted');
  },

  async acks_in_transactions() {
    const client = await Client.connect();
    client.subscribe('/queue/j.ack-transaction', 'client-individual');
    await client.send('/queue/j.ack-transaction', 'in');
    const message = await client.receive();
    const transaction = client.client.begin();
    await client.ack(message, { transaction: transaction.id });
    await client.send('/queue/j.ack-transaction.out', 'out', { transaction: transaction.id });
    same(await held('j.ack-transaction'), 1, 'not before the commit');
    await within(new Promise((resolve) => transaction.commit({ onReceipt: resolve })), 'commit');
    same(await held('j.ack-transaction'), 0);
    same(await held('j.ack-transaction.out'), 1);
  },

  async durable_messages_get_their_receipt() {
    const client = await Client.connect();
    await client.send('/queue/j.durable', 'x', { persistent: 'true' });
    same(await held('j.durable'), 1);
  },

  async binary_bodies() {
    const body = Buffer.from([...Array(256).keys(), 0, 0, 10, 10, 0]);
    for (const version of VERSIONS) {
      const client = await Client.connect(version);
      client.subscribe(`/queue/j.binary-${version}`);
      await client.send(`/queue/j.binary-${version}`, body);
      const message = await client.receive();
      same(message.body.toString('hex'), body.toString('hex'), version);
      same(message.headers['content-length'], body.length, version);
    }
  },

  async a_body_without_length_ends_at_nul() {
    const client = await Client.connect();
    client.subscribe('/queue/j.no-length');
    client.client.sendString({ destination: '/queue/j.no-length' }, 'no length');
    same(await client.bodies(1), ['no length']);
  },

  async escapes_in_headers() {
    const values = { 1.1: 'a:b\\c\nd\\n', 1.2: 'a:b\\c\nd\re\\r\\\\' };
    for (const [version, odd] of Object.entries(values)) {
      const client = await Client.connect(version);
      client.subscribe(`/queue/j.escapes-${version}`);
      await client.send(`/queue/j.escapes-${version}`, 'x', { odd, 'odd:name': 'y' });
      const { headers } = await client.receive();
      same([headers.odd, headers['odd:name']], [odd, 'y'], version);
    }
  },

  async request_and_reply_by_a_temporary_queue() {
    const [service, asker] = [await Client.connect(), await Client.connect('1.1')];
    service.subscribe('/queue/j.requests');
    asker.subscribe('/temp-queue/answers');
    await asker.send('/queue/j.requests', 'question', { 'reply-to': '/temp-queue/answers' });
    const question = await service.receive();
    await service.send(question.headers['reply-to'], 'answer');
    same(await asker.bodies(1), ['answer']);
  },

  async prefetch_count_limits_what_is_unacknowledged() {
    const client = await Client.connect();
    for (const number of upTo(5)) {
      await client.send('/queue/j.prefetch', number);
    }
    client.subscribe('/queue/j.prefetch', 'client', { 'prefetch-count': 2 });
    const messages = [await client.receive(), await client.receive()];
    same(await client.isQuiet(), true, 'no third message');
    await client.ack(messages[1]);
    same(await client.bodies(2), ['2', '3']);
  },

  async rejected_messages_come_again_and_end_as_dead_letters() {
    const client = await Client.connect();
    client.subscribe('/queue/j.dead', 'client-individual');
    await client.send('/queue/j.dead', 'poison');
    for (let attempt = 1; attempt <= 5; attempt += 1) {
      const message = await client.receive();
      same(message.headers.redelivered, attempt > 1 ? 'true' : undefined, `try ${attempt}`);
      await client.nack(message);
    }
    same(await client.isQuiet(), true, 'no sixth try');
    const { letters } = await rest('/api/v1/dead?from=j.dead');
    same(letters.map(({ body, tries }) => [body, tries]), [['poison', 5]]);
  },

  async topics_go_to_every_subscriber() {
    const clients = [];
    for (const version of VERSIONS) {
      const client = await Client.connect(version);
      client.subscribe('/topic/j.news');
      await client.send('/queue/j.news.sync', 'x');
      clients.push(client);
    }
    for (const number of upTo(10)) {
      await clients[0].send('/topic/j.news', number);
    }
    for (const client of clients) {
      same(await client.bodies(10), upTo(10));
    }
  },

  async two_subscribers_take_turns() {
    const [first, second] = [await Client.connect(), await Client.connect()];
    for (const client of [first, second]) {
      client.subscribe('/queue/j.turns');
      await client.send('/queue/j.turns.sync', 'x');
    }
    for (const number of upTo(10)) {
      await first.send('/queue/j.turns', number);
    }
    same(await first.bodies(5), ['0', '2', '4', '6', '8']);
    same(await second.bodies(5), ['1', '3', '5', '7', '9']);
  },

  async unsubscribe_while_messages_flow_loses_nothing() {
    const [sender, leaver] = [await Client.connect(), await Client.connect()];
    const sent = [];
    let flowing = true;
    const flow = (async () => {
      while (flowing) {
        await sender.send('/queue/j.flow', String(sent.length));
        sent.push(String(sent.length));
      }
    })();
    const got = [];
    for (let turn = 0; turn < 20; turn += 1) {
      // Messages are acknowledged one by one, so that what the library throws away while it
      // unsubscribes goes back to the queue; few at a time, for each of them was a try in vain.
      const subscription = leaver.subscribe('/queue/j.flow', 'client-individual', { 'prefetch-count': 1 });
      const message = await leaver.receive();
      await leaver.ack(message);
      got.push(message.body.toString());
      leaver.messages.length = 0;
      subscription.unsubscribe();
      await leaver.send('/queue/j.flow.sync', 'x');
    }
    flowing = false;
    await flow;
    leaver.messages.length = 0;
    leaver.subscribe('/queue/j.flow');
    while (got.length < sent.length) {
      got.push((await leaver.receive()).body.toString());
    }
    same(got.sort(), sent.sort(), 'every message exactly once');
  },

  async large_body() {
    const body = Buffer.alloc(8 * 1024 * 1024, 'abc\0');
    const client = await Client.connect();
    client.subscribe('/queue/j.large');
    await client.send('/queue/j.large', body);
    same((await client.receive()).body.equals(body), true, '8 MiB arrive as they were');
  },

  async too_many_subscriptions_are_refused() {
    const client = await Client.connect();
    for (let number = 0; number < SUBSCRIPTIONS_MAX; number += 1) {
      client.subscribe(`/queue/j.many-${number}`);
    }
    await client.send('/queue/j.many.sync', 'x');
    client.subscribe('/queue/j.many-more');
    const error = await client.error();
    same(error.message, 'too many subscriptions');
  },

  async an_error_says_what_is_wrong_and_closes() {
    const client = await Client.connect();
    const refused = await client.send('/nowhere/x', 'lost').catch((error) => error);
    holds(refused instanceof Error, 'the send fails');
    holds(refused.message.includes('/nowhere/x'), `it names the destination: ${refused.message}`);
  },
};

function readArguments() {
  const read = { names: [], flip: false, stomp: 61613, http: 8000 };
  const given = process.argv.slice(2);
  while (given.length > 0) {
    const next = given.shift();
    if (next === '--flip') {
      read.flip = true;
    } else if (next === '--stomp' || next === '--http') {
      read[next.slice(2)] = Number(given.shift());
    } else if (next in checks) {
      read.names.push(next);
    } else {
      throw new Error(`neither an option nor a check: ${next}`);
    }
  }
  return read;
}

const options = readArguments();
const place = {
  stomp: { host: '127.0.0.1', port: options.stomp },
  http: { host: '127.0.0.1', port: options.http },
  // It comes by the environment, where other users do not see it.
  token: process.env.HIVEWIRE_TOKEN ?? '',
};

async function main() {
  const names = options.names.length > 0 ? options.names : Object.keys(checks);
  const left = [...names];
  let failed = 0;
  const work = async () => {
    while (left.length > 0) {
      const name = left.shift();
      try {
        await running.run({ flip: options.flip }, checks[name]);
        console.log(`ok ${name}`);
      } catch (error) {
        failed += 1;
        console.log(`FAILED ${name}: ${error.message}`);
      }
    }
  };
  await Promise.all(Array.from({ length: CHECKS_AT_ONCE }, work));
  console.log(`${names.length - failed} passed, ${failed} failed`);
  // Open connections must not keep the process.
  process.exit(failed > 0 ? 1 : 0);
}

main();
