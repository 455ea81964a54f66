// bearer.mjs UPSTREAM-PORT TOKEN-FILE: a proxy on a port of its own that adds the bearer token, for peers
// that cannot send one. It changes nothing else, and prints its port.
import { readFileSync } from 'node:fs';
import http from 'node:http';

const [upstream, file] = process.argv.slice(2);
const token = readFileSync(file, 'utf8').trim();

const proxy = http.createServer((req, res) => {
	const headers = { ...req.headers, authorization: `Bearer ${token}` };
	const up = http.request(
		{ host: '127.0.0.1', port: upstream, method: req.method, path: req.url, headers },
		(answer) => {
			res.writeHead(answer.statusCode, answer.headers);
			res.flushHeaders();
			answer.pipe(res);
		},
	);
	up.on('error', () => res.destroy());
	res.on('close', () => up.destroy());
	req.pipe(up);
});
proxy.listen(0, '127.0.0.1', () => console.log(proxy.address().port));
