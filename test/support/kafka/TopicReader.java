// What is in topics, as the tests' tool (KafkaTool.java) reads it.

import com.fasterxml.jackson.databind.JsonNode;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.stream.LongStream;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

final class TopicReader {
  /** Up to the end as it is now; of `read_committed` that is the first transaction that is still open. */
  static Object read(JsonNode request, Consumer<byte[]> frame) throws Exception {
    long[] count = {0};
    forEachPart(request, (partition, records) -> {
      ByteArrayOutputStream bytes = new ByteArrayOutputStream();
      DataOutputStream content = new DataOutputStream(bytes);
      bytes(content, partition.topic().getBytes(StandardCharsets.UTF_8));
      for (var record : records) write(content, record);
      count[0] += records.size();
      frame.accept(bytes.toByteArray());
    });
    return count[0];
  }

  /** How many messages there are, and how many keys: of each only 64 bits of a hash are kept, so that millions take little. */
  static Object count(JsonNode request) throws Exception {
    LongStream.Builder hashes = LongStream.builder();
    forEachPart(request, (partition, records) -> {
      for (var record : records) hashes.add(hash(record.key()));
    });
    long[] sorted = hashes.build().sorted().toArray();
    long keys = 0;
    for (int i = 0; i < sorted.length; i++) if (i == 0 || sorted[i] != sorted[i - 1]) keys++;
    return Map.of("messages", sorted.length, "keys", keys);
  }

  /** FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ */
  private static long hash(byte[] key) {
    long hash = 0xcbf29ce484222325L;
    for (byte each : key == null ? new byte[0] : key) hash = (hash ^ (each & 0xff)) * 0x100000001b3L;
    return hash;
  }

  /** Whether a message whose key has one of these endings, in Base64, is there before the time is up. */
  static Object await(JsonNode request) throws Exception {
    List<byte[]> endings = new ArrayList<>();
    for (JsonNode ending : request.get("endings")) endings.add(ending.binaryValue());
    long deadline = System.nanoTime() + Duration.ofMillis(request.get("timeoutMs").asLong()).toNanos();
    try (var consumer = consumer(request)) {
      while (System.nanoTime() < deadline) {
        for (var record : consumer.poll(Duration.ofMillis(20))) {
          if (endings.stream().anyMatch(ending -> endsWith(record.key(), ending))) return true;
        }
      }
      return false;
    }
  }

  private static boolean endsWith(byte[] key, byte[] ending) {
    if (key == null || key.length < ending.length) return false;
    return Arrays.equals(key, key.length - ending.length, key.length, ending, 0, ending.length);
  }

  /** What each partition brings, up to its end as it is now. It gives up when nothing has come for two minutes. */
  private static void forEachPart(JsonNode request, PartConsumer take) throws Exception {
    long patience = Duration.ofSeconds(120).toNanos();
    long deadline = System.nanoTime() + patience;
    try (var consumer = consumer(request)) {
      Map<TopicPartition, Long> ends = consumer.endOffsets(consumer.assignment());
      Set<TopicPartition> unread = new HashSet<>(consumer.assignment());
      // Positions go past the markers of transactions and past what was aborted.
      while (true) {
        unread.removeIf(each -> consumer.position(each) >= ends.get(each));
        if (unread.isEmpty()) return;
        if (System.nanoTime() > deadline) throw new TimeoutException("the end of " + unread.size() + " partitions was not reached");
        var polled = consumer.poll(Duration.ofMillis(200));
        for (TopicPartition partition : polled.partitions()) {
          // What came after the end was asked for is not part of the answer.
          var records = polled.records(partition).stream().filter(each -> each.offset() < ends.get(partition)).toList();
          if (records.isEmpty()) continue;
          take.accept(partition, records);
          deadline = System.nanoTime() + patience;
        }
      }
    }
  }

  private interface PartConsumer {
    void accept(TopicPartition partition, List<ConsumerRecord<byte[], byte[]>> records) throws Exception;
  }

  /** At the beginning of every partition of the topics. */
  private static KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
    Map<String, Object> config = new HashMap<>();
    config.put("bootstrap.servers", KafkaTool.text(request, "bootstrap"));
    config.put("isolation.level", KafkaTool.text(request, "isolation"));
    config.put("enable.auto.commit", false);
    config.put("allow.auto.create.topics", false);
    config.put("auto.offset.reset", "earliest");
    config.put("max.poll.records", 5_000);
    // To close waits for the last fetch, which finds nothing.
    config.put("fetch.max.wait.ms", 20);
    var consumer = new KafkaConsumer<byte[], byte[]>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    List<String> topics = KafkaTool.strings(request.get("topics"));
    Map<String, List<PartitionInfo>> known = topics.size() == 1
        ? Map.of(topics.get(0), consumer.partitionsFor(topics.get(0)))
        : consumer.listTopics(Duration.ofSeconds(60));
    List<TopicPartition> partitions = topics.stream()
        .flatMap(topic -> known.get(topic).stream().map(each -> new TopicPartition(topic, each.partition())))
        .toList();
    consumer.assign(partitions);
    consumer.seekToBeginning(partitions);
    return consumer;
  }

  private static void write(DataOutputStream content, ConsumerRecord<byte[], byte[]> record) throws IOException {
    content.writeInt(record.partition());
    content.writeLong(record.offset());
    content.writeLong(record.timestamp());
    bytes(content, record.key());
    bytes(content, record.value());
    Header[] headers = record.headers().toArray();
    content.writeInt(headers.length);
    for (Header header : headers) {
      bytes(content, header.key().getBytes(StandardCharsets.UTF_8));
      bytes(content, header.value());
    }
  }

  private static void bytes(DataOutputStream content, byte[] bytes) throws IOException {
    content.writeInt(bytes == null ? -1 : bytes.length);
    if (bytes != null) content.write(bytes);
  }
}
