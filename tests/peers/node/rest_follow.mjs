// EventSource, as browsers have it: follows a topic that is written to, on a proxy that cuts it off every second.
import {EventSource} from 'eventsource'

const [cluster, topic, rounds] = process.argv.slice(2);
const source = new EventSource(cluster + '/topics/' + topic + '/records:tail?from=beginning');
const seen = [], headers = {'Content-Type': 'application/json'}, wanted = +rounds * 25;
let opened = 0;
source.onopen = () => { opened++; };
source.addEventListener('record', event => {
    const record = JSON.parse(event.data);
    seen.push(record.partition_id + ':' + record.offset);
    if (seen.length >= wanted) {
        console.log(JSON.stringify({seen: seen.length, distinct: new Set(seen).size, opened}));
        process.exit(0);
    }
});
(async () => {
    for (let round = 0; round < +rounds; round++) {
        const body = Array.from({length: 25}, (_, n) => JSON.stringify({value: {type: 'JSON', data: {n}}})).join(' ');
        await (await fetch(cluster + '/topics/' + topic + '/records', {method: 'POST', headers, body})).text();
        await new Promise(done => setTimeout(done, 100));
    }
})();
