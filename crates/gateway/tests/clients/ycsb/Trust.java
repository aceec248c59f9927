import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;

/** Turns a file of certificates, as other programs read them, into a store that Java reads: Trust CERTIFICATES STORE. */
final class Trust {
  public static void main(String[] arguments) throws Exception {
    KeyStore store = KeyStore.getInstance("JKS");
    store.load(null, null);
    try (InputStream input = Files.newInputStream(Path.of(arguments[0]))) {
      for (Certificate authority : CertificateFactory.getInstance("X.509").generateCertificates(input)) {
        store.setCertificateEntry("authority " + store.size(), authority);
      }
    }
    // Certificates are no secret; the format wants a password, and readers need none.
    try (OutputStream output = Files.newOutputStream(Path.of(arguments[1]))) {
      store.store(output, "public".toCharArray());
    }
  }
}
