import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.Vector;

import redis.clients.jedis.Jedis;
import redis.clients.jedis.params.ScanParams;
import redis.clients.jedis.resps.ScanResult;
import site.ycsb.ByteIterator;
import site.ycsb.DB;
import site.ycsb.DBException;
import site.ycsb.Status;
import site.ycsb.StringByteIterator;

/**
 * YCSB on any server that speaks RESP: a record is one value, its fields in lines of name and value. An update of some
 * fields reads the record and writes it back. The store has no order of keys, so a scan looks at all of them.
 */
public class RespDB extends DB {
  private Jedis jedis;

  @Override
  public void init() throws DBException {
    jedis = new Jedis("127.0.0.1", Integer.parseInt(getProperties().getProperty("resp.port", "6379")));
  }

  @Override
  public void cleanup() {
    jedis.close();
  }

  @Override
  public Status read(String table, String key, Set<String> fields, Map<String, ByteIterator> result) {
    String record = jedis.get(key);
    if (record == null) {
      return Status.NOT_FOUND;
    }
    decode(record, fields, result);
    return Status.OK;
  }

  @Override
  public Status scan(String table, String start, int count, Set<String> fields, Vector<HashMap<String, ByteIterator>> result) {
    TreeSet<String> keys = new TreeSet<>();
    String cursor = ScanParams.SCAN_POINTER_START;
    do {
      ScanResult<String> page = jedis.scan(cursor, new ScanParams().count(1000));
      page.getResult().stream().filter(key -> key.compareTo(start) >= 0).forEach(keys::add);
      cursor = page.getCursor();
    } while (!cursor.equals(ScanParams.SCAN_POINTER_START));
    List<String> wanted = new ArrayList<>(keys).subList(0, Math.min(count, keys.size()));
    if (!wanted.isEmpty()) {
      for (String record : jedis.mget(wanted.toArray(new String[0]))) {
        if (record != null) {
          HashMap<String, ByteIterator> row = new HashMap<>();
          decode(record, fields, row);
          result.add(row);
        }
      }
    }
    return Status.OK;
  }

  @Override
  public Status insert(String table, String key, Map<String, ByteIterator> values) {
    return "OK".equals(jedis.set(key, encode(StringByteIterator.getStringMap(values)))) ? Status.OK : Status.ERROR;
  }

  @Override
  public Status update(String table, String key, Map<String, ByteIterator> values) {
    Map<String, ByteIterator> whole = new HashMap<>();
    if (read(table, key, null, whole) != Status.OK) {
      return Status.NOT_FOUND;
    }
    whole.putAll(values);
    return insert(table, key, whole);
  }

  @Override
  public Status delete(String table, String key) {
    return jedis.del(key) == 1 ? Status.OK : Status.NOT_FOUND;
  }

  private static String encode(Map<String, String> fields) {
    StringBuilder record = new StringBuilder();
    fields.forEach((name, value) -> record.append(name).append('\n').append(escape(value)).append('\n'));
    return record.toString();
  }

  private static void decode(String record, Set<String> fields, Map<String, ByteIterator> result) {
    String[] lines = record.split("\n", -1);
    for (int line = 0; line + 1 < lines.length; line += 2) {
      if (fields == null || fields.contains(lines[line])) {
        result.put(lines[line], new StringByteIterator(unescape(lines[line + 1])));
      }
    }
  }

  private static String escape(String value) {
    return value.replace("\\", "\\\\").replace("\n", "\\n");
  }

  private static String unescape(String value) {
    StringBuilder plain = new StringBuilder();
    for (int at = 0; at < value.length(); at++) {
      char letter = value.charAt(at);
      if (letter == '\\') {
        letter = value.charAt(++at);
        letter = letter == 'n' ? '\n' : letter;
      }
      plain.append(letter);
    }
    return plain.toString();
  }
}
