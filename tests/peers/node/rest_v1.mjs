// Confluent's client for v1: produces, then reads everything as a consumer instance.
import KafkaRest from 'kafka-rest'

const [url, format, topic, count] = process.argv.slice(2);
const kafka = new KafkaRest({url}), fields = [{name: 'n', type: 'int'}];
const schema = format === 'avro' ? new KafkaRest.AvroSchema({name: 'T', type: 'record', fields}) : undefined;
let left = +count, failed = 0;
const sent = error => { failed += error ? 1 : 0; if (--left === 0) read(); };
for (let i = 0; i < +count; i++)
    schema ? kafka.topic(topic).produce(schema, {n: i}, sent) : kafka.topic(topic).produce('' + i, sent);
function read() {
    kafka.consumer('g-' + topic).join({format, 'auto.offset.reset': 'smallest'}, (error, consumer) => {
        const found = new Set(), stream = consumer.subscribe(topic);
        stream.on('data', messages => {
            messages.forEach(each => found.add(schema ? each.value.n : +each.value.toString()));
            if (found.size === +count) consumer.shutdown(problem => {
                console.log(JSON.stringify({failed, read: found.size, problem: problem || null}));
                process.exit(0);
            });
        });
    });
}
