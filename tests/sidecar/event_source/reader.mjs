// Prints each message that npm `eventsource` delivers, one line of JSON each, and its own events.
import { EventSource } from 'eventsource'

const source = new EventSource(process.argv[2])
const print = (kind, data) => console.log(JSON.stringify({ kind, ...data }))
source.onopen = () => print('open', {})
source.onmessage = (event) => print('message', { id: event.lastEventId, data: event.data })
source.onerror = (event) => print('error', { code: event.code ?? null, state: source.readyState })
source.addEventListener('gap', (event) => print('gap', { id: event.lastEventId, data: event.data }))
process.stdin.on('end', () => process.exit(0)).resume()
