import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.io.StringReader;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import oasis.names.tc.xacml._3_0.core.schema.wd_17.DecisionType;
import oasis.names.tc.xacml._3_0.core.schema.wd_17.Request;
import oasis.names.tc.xacml._3_0.core.schema.wd_17.Response;
import org.ow2.authzforce.core.pdp.api.DecisionRequest;
import org.ow2.authzforce.core.pdp.api.DecisionRequestPreprocessor;
import org.ow2.authzforce.core.pdp.api.DecisionResultPostprocessor;
import org.ow2.authzforce.core.pdp.api.io.PdpEngineInoutAdapter;
import org.ow2.authzforce.core.pdp.impl.BasePdpEngine;
import org.ow2.authzforce.core.pdp.impl.PdpEngineConfiguration;
import org.ow2.authzforce.core.pdp.impl.io.PdpEngineAdapters;
import org.ow2.authzforce.xacml.Xacml3JaxbHelper;

/**
 * Peer decides with AuthzForce. It reads commands from the standard input, one a
 * line with tabs between the words, and answers each with one line: "ok" and the
 * result, or "error" and the reason.
 *
 * <pre>
 * load CONFIGURATION            nanoseconds for loading the policies of a configuration file
 * decide REQUEST                the response to a request file, in base64
 * bench MODE REQUEST THREADS MILLIS   decisions and nanoseconds; each must be Permit
 * </pre>
 *
 * A mode is "object", which decides on a request in memory with the engine's own
 * interface, or "xml", which also reads the request and writes the response.
 */
public final class Peer {
    private PdpEngineConfiguration configuration;
    private BasePdpEngine engine;
    private PdpEngineInoutAdapter<Request, Response> adapter;

    public static void main(String[] args) throws Exception {
        Peer peer = new Peer();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = in.readLine()) != null; ) {
            String answer;
            try {
                answer = "ok " + peer.command(line.split("\t"));
            } catch (Throwable e) {
                answer = "error " + reason(e);
            }
            System.out.println(answer);
            System.out.flush();
        }
    }

    /** reason returns the texts of an error and of its causes, on one line. */
    private static String reason(Throwable e) {
        StringBuilder all = new StringBuilder();
        for (int depth = 0; e != null && depth < 8; e = e.getCause(), depth++) {
            all.append(e.getClass().getSimpleName()).append(": ").append(e.getMessage()).append("; ");
        }
        return all.toString().replaceAll("\\s+", " ");
    }

    private String command(String[] words) throws Exception {
        switch (words[0]) {
            case "load":
                return load(words[1]);
            case "decide":
                return Base64.getEncoder().encodeToString(exchange(Files.readString(Path.of(words[1]))).getBytes(StandardCharsets.UTF_8));
            case "bench":
                return bench(words[1], Files.readString(Path.of(words[2])), Integer.parseInt(words[3]), Long.parseLong(words[4]));
            default:
                throw new IllegalArgumentException("unknown command " + words[0]);
        }
    }

    private String load(String file) throws Exception {
        long start = System.nanoTime();
        configuration = PdpEngineConfiguration.getInstance(new File(file).toURI().toString());
        engine = new BasePdpEngine(configuration);
        long time = System.nanoTime() - start;
        Map.Entry<DecisionRequestPreprocessor<?, ?>, DecisionResultPostprocessor<?, ?>> chain = chain();
        adapter = PdpEngineAdapters.newInoutAdapter(Request.class, Response.class, engine, chain.getKey(), chain.getValue());
        return Long.toString(time);
    }

    /** chain returns what reads requests and writes responses. */
    private Map.Entry<DecisionRequestPreprocessor<?, ?>, DecisionResultPostprocessor<?, ?>> chain() {
        return configuration.getInOutProcChains().get(Request.class);
    }

    private static Request read(String text) throws Exception {
        return (Request) Xacml3JaxbHelper.createXacml3Unmarshaller().unmarshal(new StringReader(text));
    }

    /** exchange decides on a request as XML and returns the response as XML. */
    private String exchange(String text) throws Exception {
        StringWriter out = new StringWriter();
        Xacml3JaxbHelper.createXacml3Marshaller().marshal(adapter.evaluate(read(text)), out);
        return out.toString();
    }

    private String bench(String mode, String text, int threads, long millis) throws Exception {
        Callable<Boolean> once = mode.equals("xml") ? () -> exchange(text).contains("Permit") : decision(text);
        if (!once.call()) {
            throw new IllegalStateException("the decision is not Permit");
        }
        long start = System.nanoTime();
        long end = start + millis * 1_000_000;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Future<Long>> counts = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            counts.add(pool.submit(() -> repeat(once, end)));
        }
        long count = 0;
        for (Future<Long> one : counts) {
            count += one.get();
        }
        pool.shutdown();
        return count + " " + (System.nanoTime() - start);
    }

    /** decision returns what decides on a request in memory. */
    @SuppressWarnings("unchecked")
    private Callable<Boolean> decision(String text) throws Exception {
        DecisionRequestPreprocessor<Request, ?> reader = (DecisionRequestPreprocessor<Request, ?>) chain().getKey();
        DecisionRequest request = (DecisionRequest) reader.process(read(text), Map.of()).get(0);
        BasePdpEngine engine = this.engine;
        return () -> engine.evaluate(request).getDecision() == DecisionType.PERMIT;
    }

    private static Long repeat(Callable<Boolean> once, long end) throws Exception {
        long count = 0;
        do {
            if (!once.call()) {
                throw new IllegalStateException("the decision is not Permit");
            }
            count++;
        } while (System.nanoTime() < end);
        return count;
    }
}
