import java.time.OffsetDateTime;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.openapitools.client.ApiClient;
import org.openapitools.client.ApiException;
import org.openapitools.client.ApiResponse;
import org.openapitools.client.api.BizTypesApi;
import org.openapitools.client.api.NumbersApi;
import org.openapitools.client.api.ServiceApi;
import org.openapitools.client.api.TokensApi;
import org.openapitools.client.model.Binding;
import org.openapitools.client.model.BizType;
import org.openapitools.client.model.Code;
import org.openapitools.client.model.Definition;
import org.openapitools.client.model.Issued;
import org.openapitools.client.model.Parsed;
import org.openapitools.client.model.Problem;
import org.openapitools.client.model.Readiness;
import org.openapitools.client.model.Token;
import org.openapitools.client.model.TokenPatch;
import org.openapitools.client.model.TokenRequest;
import org.openapitools.client.model.TokenWithSecret;

/** Uses the client of openapi-generator. */
public final class Use {
  private static final ApiClient ADMIN = connect(System.getenv("SEQD_TOKEN"));

  private Use() {}

  private static ApiClient connect(String token) {
    ApiClient client = new ApiClient().setBasePath(System.getenv("SEQD_URL"));
    client.setBearerToken(token);
    return client;
  }

  private interface Request {
    void send() throws ApiException;
  }

  /** Checks that a request gets a problem with this code. */
  private static Problem refused(int status, Code code, Request request) throws Exception {
    try {
      request.send();
    } catch (ApiException e) {
      Problem problem = Problem.fromJson(e.getResponseBody());
      check(e.getCode() == status && problem.getStatus() == status && problem.getCode() == code, problem);
      return problem;
    }
    throw new AssertionError("the answer is not " + code);
  }

  private static void check(boolean holds, Object what) {
    if (!holds) {
      throw new AssertionError(what);
    }
  }

  private static String header(ApiResponse<?> answer, String name) {
    return answer.getHeaders().get(name.toLowerCase()).get(0);
  }

  private static void numbers() throws Exception {
    NumbersApi api = new NumbersApi(ADMIN);
    Issued one = api.takeNumbers("order", null, null);
    check(one.getId().matches("[0-9]+") && one.getIds() == null, one);
    Issued three = api.takeNumbers("order", 3, null);
    check(three.getIds().size() == 3 && three.getId() == null, three);

    Issued first = api.postNumbers("order", 2, "java", null);
    ApiResponse<Issued> again = api.postNumbersWithHttpInfo("order", 2, "java", null);
    check(again.getData().equals(first), again.getData());
    check(header(again, "Idempotent-Replayed").equals("true"), again.getHeaders());
    refused(422, Code.IDEMPOTENCY_KEY_REUSED, () -> api.postNumbers("order", 3, "java", null));

    Parsed parsed = api.parseID("order", one.getId(), null);
    check(parsed.getValid() && parsed.getNumber().equals(one.getId()), parsed);
    refused(404, Code.UNKNOWN_BIZ_TYPE, () -> api.takeNumbers("nobody", null, null));
  }

  private static void bizTypes() throws Exception {
    BizTypesApi api = new BizTypesApi(ADMIN);
    long start = 9_000_000_000_000L; // more than 32 bits have
    Definition definition = new Definition().start(start).addPluginsItem(new Binding().name("stats"));
    BizType made = api.putBizType("java", definition, null, null, null, null);
    check(made.getEnabled() && made.getDefinition().getStart() == start, made);
    List<BizType> listed = api.listBizTypes(null, 1000, null).getBizTypes();
    check(listed.stream().anyMatch(bizType -> bizType.getName().equals("java")), listed);

    ApiResponse<BizType> got = api.getBizTypeWithHttpInfo("java");
    check(Objects.equals(got.getData().getVersion(), made.getVersion()), got.getData());
    String tag = header(got, "ETag");
    BizType changed = api.patchBizType("java", Map.of("step", 500), null, null, tag, null);
    check(changed.getDefinition().getStep() == 500, changed);
    refused(412, Code.PRECONDITION_FAILED, () -> api.patchBizType("java", Map.of("step", 600), null, null, tag, null));
    Problem wrong =
        refused(400, Code.INVALID_DEFINITION, () -> api.patchBizType("java", Map.of("step", 0), null, null, null, null));
    check(wrong.getProblems().get(0).getKey().equals("step"), wrong);
  }

  private static void tokens() throws Exception {
    TokensApi api = new TokensApi(ADMIN);
    TokenRequest request = new TokenRequest().name("java").addScopesItem("issue:java");
    TokenWithSecret made = api.createToken(request);
    check(made.getEnabled(), made);
    refused(409, Code.CONFLICT, () -> api.createToken(request));
    ApiClient shop = connect(made.getSecret());
    Issued issued = new NumbersApi(shop).takeNumbers("java", null, null);
    check(issued.getId().equals("9000000000000"), issued);
    refused(403, Code.FORBIDDEN, () -> new TokensApi(shop).listTokens(null, null));
    refused(401, Code.UNAUTHORIZED, () -> new TokensApi(connect("seqd_wrong")).listTokens(null, null));

    OffsetDateTime expires = OffsetDateTime.parse("2100-01-01T00:00:00Z");
    Token changed = api.patchToken("java", new TokenPatch().expires(expires), null);
    check(expires.isEqual(changed.getExpires()), changed);
    changed = api.patchToken("java", new TokenPatch().enabled(false), null);
    check(!changed.getEnabled(), changed);
    api.deleteToken("java", null);
    refused(404, Code.NOT_FOUND, () -> api.getToken("java"));
  }

  private static void service() throws Exception {
    BizTypesApi api = new BizTypesApi(ADMIN);
    check(api.getStats("java").getIssued() == 1, api.getStats("java"));
    check(new ServiceApi(ADMIN).readiness(null).getStatus() == Readiness.StatusEnum.READY, "not ready");
    check(new ServiceApi(ADMIN).listNodes().getNodes().get(0).getSelf(), "another node");
    api.deleteBizType("java", null, null, null);
    Issued later = Issued.fromJson("{\"bizType\": \"java\", \"id\": \"1\", \"field\": \"of a later version\"}");
    check(later.getId().equals("1"), later);
  }

  public static void main(String[] args) throws Exception {
    numbers();
    bizTypes();
    tokens();
    service();
    System.out.println("all as it should be");
  }
}
