// peer.mjs stdio PROGRAM BOX | http URL TOKEN-FILE BOX: the official SDK's client against ours, as an agent uses it.
// Prints a line for each thing that was seen to work, and ends with 1 at the first that was not. The second call
// waits for a person: whoever runs this approves when "waits" is printed, adds the op run:gate at "add", and drops it
// when the call after that runs.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { resolve } from 'node:path';

const require = createRequire(resolve(process.env.PEERS, '_'));
const load = (name) => import(require.resolve(`@modelcontextprotocol/sdk/${name}`).replace('/cjs/', '/esm/'));
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');
const { StreamableHTTPClientTransport } = await load('client/streamableHttp.js');
const { ToolListChangedNotificationSchema } = await load('types.js');

const [kind, where, ...rest] = process.argv.slice(2);
const box = rest.at(-1);
const say = (text) => process.stdout.write(`${text}\n`);

const transport = () => {
	if (kind === 'stdio')
		return new StdioClientTransport({ command: where, args: ['mcp'], env: process.env });
	const token = readFileSync(rest[0], 'utf8').trim();
	return new StreamableHTTPClientTransport(new URL(where), {
		requestInit: { headers: { Authorization: `Bearer ${token}` } },
	});
};

const client = new Client({ name: 'peer', version: '1' });
const wire = transport();
await client.connect(wire);
say(`connected to ${client.getServerVersion().name}`);
assert.ok(client.getInstructions().includes('approves'));
await client.ping();

// Listing makes the client compile each outputSchema, and hold every result against it from then on.
const { tools } = await client.listTools();
const names = tools.map((tool) => tool.name);
assert.deepEqual(names, [...names].sort());
for (const op of ['cert', 'folders', 'journal', 'logins']) assert.ok(names.includes(`${box}.observe_${op}`));
// What only asks says so, and what changes something does not pass for it.
for (const { name, annotations } of tools) {
	const asks = name.startsWith(`${box}.observe_`) || name === `${box}.grant_list`;
	assert.equal(annotations.readOnlyHint, asks, name);
	if (asks) assert.ok(!annotations.destructiveHint, name);
}
assert.ok(tools.find((tool) => tool.name === `${box}.file_put`).annotations.destructiveHint);
say(`listed ${tools.length} tools`);

const { resources } = await client.listResources();
for (const { uri } of resources) {
	const { contents } = await client.readResource({ uri });
	JSON.parse(contents[0].text);
}
await client.listResourceTemplates();
await assert.rejects(client.readResource({ uri: 'bastion://nothing' }), { code: -32002 });
say(`read ${resources.length} resources`);

const name = `${box}.observe_folders`;
await assert.rejects(client.callTool({ name: 'no.such' }), { code: -32602 });
const wrong = await client.callTool({ name, arguments: { path: 'usr', depth: 9 } });
assert.ok(wrong.isError);

// Nobody approved this yet. A box that is slow to say so is "at work" until then.
const question = `a person at ${box} has to approve question`;
let asked = false;
const answer = await client.callTool({ name, arguments: { path: '/usr/share', depth: 1 } }, undefined, {
	timeout: 10000,
	resetTimeoutOnProgress: true,
	onprogress: ({ message }) => {
		if (!asked && message.includes(question)) say(`waits: ${message}`);
		asked ||= message.includes(question);
	},
});
assert.ok(asked);
assert.ok(!answer.isError);
assert.equal(answer.structuredContent.path, '/usr/share');
assert.deepEqual(JSON.parse(answer.content[0].text), answer.structuredContent);
say('was answered');

// Taken back: the client tells us, and expects nothing.
const abort = new AbortController();
await assert.rejects(
	client.callTool({ name, arguments: { path: '/usr/lib' } }, undefined, {
		signal: abort.signal,
		onprogress: () => abort.abort('enough'),
	}),
);
await client.ping();
say('took one back');

// An op that a person adds at the box is a tool then; a call of it outlives its removal.
let changed;
const change = () => new Promise((done) => (changed = done));
client.setNotificationHandler(ToolListChangedNotificationSchema, () => changed?.());
const comes = change();
say('add');
await comes;
const gate = `${box}.run_gate`;
const added = (await client.listTools()).tools.find((tool) => tool.name === gate);
assert.deepEqual(added.inputSchema.properties.word.enum, ['one', 'two']);
assert.deepEqual(added.inputSchema.required, ['word']);
assert.ok(added.annotations.destructiveHint && !added.annotations.readOnlyHint);
assert.ok((await client.callTool({ name: gate, arguments: { word: 'three' } })).isError);
const goes = change();
let waits = false;
const opened = client.callTool({ name: gate, arguments: { word: 'two' } }, undefined, {
	timeout: 10000,
	resetTimeoutOnProgress: true,
	onprogress: ({ message }) => {
		if (!waits && message.includes(question)) say(`waits: ${message}`);
		waits ||= message.includes(question);
	},
});
await goes;
assert.ok(!(await client.listTools()).tools.some((tool) => tool.name === gate));
say('open');
const through = await opened;
assert.ok(!through.isError, JSON.stringify(through));
assert.ok(through.content[0].text.includes('passed two'));
await assert.rejects(client.callTool({ name: gate, arguments: { word: 'two' } }), { code: -32602 });
say('came through an op that went');

if (kind === 'http') await wire.terminateSession();
await client.close();
say('ended');
