// The tests' own Kafka client: Apache's, in a process of its own, so that what is read owes nothing to the client under
// test. It takes requests as lines of JSON on stdin, and answers in frames on stdout (kafka-tool.ts reads them):
// length, request, kind, content. It also guards the brokers: when its stdin ends, as it does however the test process
// dies, it kills them and removes their directory.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.io.StringWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.TransactionalIdNotFoundException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.utils.Utils;

public final class KafkaTool {
  private static final int RECORDS = 0, RESULT = 1, FAILURE = 2;
  private static final ObjectMapper json = new ObjectMapper();
  private static final Collection<ProcessHandle> brokers = new ConcurrentLinkedQueue<>();
  private static final DataOutputStream out = new DataOutputStream(System.out);
  private static Path directory;
  private static Admin admin;

  public static void main(String[] args) throws Exception {
    // What libraries print is for the log.
    System.setOut(System.err);
    directory = Path.of(args[0]);
    Runtime.getRuntime().addShutdownHook(new Thread(KafkaTool::killBrokers));
    ExecutorService threads = Executors.newCachedThreadPool();
    BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = requests.readLine()) != null; ) {
      JsonNode request = json.readTree(line);
      threads.execute(() -> answer(request));
    }
    killBrokers();
    deleteDirectory();
    Runtime.getRuntime().halt(0);
  }

  private static void answer(JsonNode request) {
    int id = request.get("id").asInt();
    try {
      Object result = perform(id, request.get("op").asText(), request);
      frame(id, RESULT, json.writeValueAsBytes(result));
    } catch (Throwable error) {
      StringWriter text = new StringWriter();
      error.printStackTrace(new PrintWriter(text));
      frame(id, FAILURE, text.toString().getBytes(StandardCharsets.UTF_8));
    }
  }

  private static void frame(int id, int kind, byte[] content) {
    synchronized (out) {
      try {
        out.writeInt(content.length);
        out.writeInt(id);
        out.writeByte(kind);
        out.write(content);
        out.flush();
      } catch (IOException error) {
        // Whoever read this is gone: stdin ends, too.
      }
    }
  }

  private static Object perform(int id, String operation, JsonNode request) throws Exception {
    switch (operation) {
      case "guard":
        ProcessHandle.of(request.get("pid").asLong()).ifPresent(brokers::add);
        return null;
      case "format":
        return format(request);
      case "connect":
        admin = Admin.create(Map.of("bootstrap.servers", text(request, "bootstrap"), "default.api.timeout.ms", 30_000));
        return null;
      case "nodes":
        return admin.describeCluster().nodes().get().stream().map(node -> node.id()).sorted().toList();
      case "createTopic":
        NewTopic topic = new NewTopic(text(request, "topic"), request.get("partitions").asInt(), (short) request.get("replicas").asInt());
        admin.createTopics(List.of(topic.configs(map(request.get("config"))))).all().get();
        return null;
      case "deleteTopic":
        admin.deleteTopics(List.of(text(request, "topic"))).all().get();
        return null;
      case "configureTopic":
        configure(text(request, "topic"), map(request.get("config")));
        return null;
      case "addPartitions":
        admin.createPartitions(Map.of(text(request, "topic"), NewPartitions.increaseTo(request.get("partitions").asInt()))).all().get();
        return null;
      case "deleteRecords":
        TopicPartition partition = new TopicPartition(text(request, "topic"), request.get("partition").asInt());
        admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(request.get("before").asLong()))).all().get();
        return null;
      case "topics":
        return admin.listTopics().names().get().stream().sorted().toList();
      case "describeTopic":
        return describe(text(request, "topic"));
      case "coordinator":
        return coordinator(text(request, "transactionalId"));
      case "transactions":
        return admin.listTransactions().all().get().stream()
            .map(each -> Map.of("transactionalId", each.transactionalId(), "producerId", each.producerId(), "state", each.state().toString()))
            .toList();
      case "setPassword":
        for (ScramMechanism mechanism : List.of(ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)) {
          var credential = new UserScramCredentialUpsertion(text(request, "user"), new ScramCredentialInfo(mechanism, 4096), text(request, "password"));
          admin.alterUserScramCredentials(List.of(credential)).all().get();
        }
        return null;
      case "allow":
        allow(request);
        return null;
      case "withdraw":
        var entries = new AccessControlEntryFilter("User:" + text(request, "user"), null, AclOperation.ANY, AclPermissionType.ANY);
        admin.deleteAcls(List.of(new AclBindingFilter(ResourcePatternFilter.ANY, entries))).all().get();
        return null;
      case "read":
        return TopicReader.read(request, bytes -> frame(id, RECORDS, bytes));
      case "count":
        return TopicReader.count(request);
      case "await":
        return TopicReader.await(request);
      case "quota":
        // Of every client that has none of its own.
        var everybody = new ClientQuotaEntity(java.util.Collections.singletonMap(ClientQuotaEntity.CLIENT_ID, null));
        JsonNode rate = request.get("bytesPerSecond");
        var quota = new ClientQuotaAlteration.Op("producer_byte_rate", rate.isNull() ? null : rate.asDouble());
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(everybody, List.of(quota)))).all().get();
        return null;
      default:
        throw new IllegalArgumentException(operation);
    }
  }

  /** Writes a node's storage, as `kafka-storage.sh format` does. */
  private static Object format(JsonNode request) throws Exception {
    List<String> args = new ArrayList<>(List.of("format", "--cluster-id=" + text(request, "cluster"), "--config", text(request, "config")));
    for (JsonNode credential : request.get("scram")) args.addAll(List.of("--add-scram", credential.asText()));
    ByteArrayOutputStream said = new ByteArrayOutputStream();
    int code = kafka.tools.StorageTool.execute(args.toArray(new String[0]), new PrintStream(said, true));
    if (code != 0) throw new IllegalStateException("kafka-storage failed with " + code + ": " + said);
    return null;
  }

  private static void configure(String topic, Map<String, String> config) throws Exception {
    var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    List<AlterConfigOp> changes = config.entrySet().stream()
        .map(each -> new AlterConfigOp(new ConfigEntry(each.getKey(), each.getValue()), AlterConfigOp.OpType.SET))
        .toList();
    admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
  }

  private static Object describe(String name) throws Exception {
    var resource = new ConfigResource(ConfigResource.Type.TOPIC, name);
    Map<String, String> config = new HashMap<>();
    for (ConfigEntry entry : admin.describeConfigs(List.of(resource)).all().get().get(resource).entries()) {
      config.put(entry.name(), entry.value());
    }
    List<Object> partitions = new ArrayList<>();
    for (TopicPartitionInfo each : admin.describeTopics(List.of(name)).allTopicNames().get().get(name).partitions()) {
      Map<String, Object> partition = new HashMap<>();
      partition.put("leader", each.leader() == null ? -1 : each.leader().id());
      partition.put("replicas", each.replicas().stream().map(node -> node.id()).toList());
      partition.put("inSync", each.isr().stream().map(node -> node.id()).toList());
      partitions.add(partition);
    }
    return Map.of("partitions", partitions, "config", config);
  }

  /** Asking for it creates the topic of transactions, if there was none. */
  private static int coordinator(String transactionalId) throws Exception {
    try {
      return admin.describeTransactions(List.of(transactionalId)).description(transactionalId).get().coordinatorId();
    } catch (java.util.concurrent.ExecutionException error) {
      if (!(error.getCause() instanceof TransactionalIdNotFoundException)) throw error;
    }
    var partitions = admin.describeTopics(List.of("__transaction_state")).allTopicNames().get().get("__transaction_state").partitions();
    return partitions.get(Utils.abs(transactionalId.hashCode()) % partitions.size()).leader().id();
  }

  private static void allow(JsonNode request) throws Exception {
    var type = ResourceType.fromString(text(request, "resource"));
    var pattern = new ResourcePattern(type, text(request, "name"), PatternType.valueOf(text(request, "pattern")));
    List<AclBinding> bindings = new ArrayList<>();
    for (JsonNode operation : request.get("operations")) {
      var entry = new AccessControlEntry("User:" + text(request, "user"), "*", AclOperation.fromString(operation.asText()), AclPermissionType.ALLOW);
      bindings.add(new AclBinding(pattern, entry));
    }
    admin.createAcls(bindings).all().get();
  }

  static String text(JsonNode request, String name) {
    return request.get(name).asText();
  }

  static List<String> strings(JsonNode node) {
    List<String> strings = new ArrayList<>();
    for (JsonNode each : node) strings.add(each.asText());
    return strings;
  }

  private static Map<String, String> map(JsonNode node) {
    Map<String, String> map = new HashMap<>();
    node.fields().forEachRemaining(each -> map.put(each.getKey(), each.getValue().asText()));
    return map;
  }

  private static void killBrokers() {
    for (ProcessHandle broker : brokers) broker.destroyForcibly();
    for (ProcessHandle broker : brokers) {
      try {
        broker.onExit().get(5, TimeUnit.SECONDS);
      } catch (Exception error) {
        // Where nobody reaps orphans, it stays as a zombie.
      }
    }
  }

  private static void deleteDirectory() throws IOException {
    if (!Files.exists(directory)) return;
    try (var paths = Files.walk(directory)) {
      paths.sorted(Comparator.reverseOrder()).forEach(path -> path.toFile().delete());
    }
  }
}
