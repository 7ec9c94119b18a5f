#include "runtime/core/error.hpp"
#include "runtime/object/object_request.hpp"
#include "runtime/object/object_service.hpp"
#include "runtime/object/object_store.hpp"
#include "tests/runtime/object/answering_server.hpp"
#include "tests/support/scratch_folder.hpp"
#include "tests/support/soon.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

environment variables(std::map<std::string, std::string> all) {
  return [all = std::move(all)](const char* name) -> std::optional<std::string> {
    const auto at = all.find(name);
    return at == all.end() ? std::nullopt : std::optional(at->second);
  };
}

std::string text_at(const object_store& from,
                    const object_url& object,
                    std::uint64_t offset,
                    std::size_t size) {
  std::string out(size, '\0');
  from.read(object, offset, std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace

TEST_CASE("an s3:// path is a bucket and a key", "[object]") {
  CHECK(is_object_url("s3://lake/x"));
  CHECK_FALSE(is_object_url("/data/s3://lake/x"));
  CHECK(parse_object_url("s3://lake/a/b c.bin") == object_url{"lake", "a/b c.bin"});
  CHECK(to_string(parse_object_url("s3://lake/a/b")) == "s3://lake/a/b");
  for (const auto* text :
       {"s3://lake", "s3://lake/", "s3:///x", "s3://l/x", "s3://la ke/x", "s3://lake/\n"})
    CHECK_THROWS_AS(parse_object_url(text), input_error);
  CHECK(percent_encoded("a/b c+%~.bin") == "a/b%20c%2B%25~.bin");
}

TEST_CASE("a custom endpoint has the bucket in the path, AWS in the host name", "[object]") {
  const object_url x{"lake", "a b"}, dotted{"my.lake", "k"};
  CHECK(address_of({.endpoint = "http://h:9000"}, x) == "http://h:9000/lake/a%20b");
  CHECK(address_of({}, x) == "https://lake.s3.us-east-1.amazonaws.com/a%20b");
  CHECK(address_of({.region = "eu-north-1"}, dotted)
        == "https://s3.eu-north-1.amazonaws.com/my.lake/k");
}

TEST_CASE("the environment overrides the profile, and its credentials override its config",
          "[object]") {
  const tests::scratch_folder folder;
  std::ofstream(folder / "credentials")
      << "[default]\naws_access_key_id=A\naws_secret_access_key=B\n"
         "[half]\naws_access_key_id=A\n";
  std::ofstream(folder / "config")
      << "# of ours\n[default]\nregion = eu-west-1\naws_access_key_id=C\n"
         "s3 =\n  payload = x\n[profile sso]\nsso_session = s\n";
  std::map<std::string, std::string> known
      = {{"AWS_SHARED_CREDENTIALS_FILE", (folder / "credentials").string()},
         {"AWS_CONFIG_FILE", (folder / "config").string()}};
  const auto with = [&](const char* name, const char* value) {
    auto all = known;
    all[name] = value;
    return service_from(variables(all));
  };
  const auto plain = service_from(variables(known));
  REQUIRE(plain.credentials);
  CHECK(plain.credentials->id == "A");
  CHECK(plain.credentials->secret == "B");
  CHECK(plain.region == "eu-west-1");
  CHECK(plain.endpoint.empty());
  CHECK(with("AWS_REGION", "cn-north-1").region == "cn-north-1");
  CHECK(with("AWS_ENDPOINT_URL", "http://h:1/").endpoint == "http://h:1");
  CHECK_FALSE(service_from(variables({})).credentials);
  CHECK(service_from(variables({})).region == "us-east-1");
  CHECK_THROWS_WITH(with("AWS_PROFILE", "gone"), ContainsSubstring("gone"));
  CHECK_THROWS_WITH(with("AWS_PROFILE", "half"), ContainsSubstring("not the secret"));
  CHECK_THROWS_WITH(with("AWS_PROFILE", "sso"), ContainsSubstring("sso_session"));
  CHECK_THROWS_WITH(with("AWS_SECRET_ACCESS_KEY", "x"), ContainsSubstring("not the access key id"));
  CHECK_THROWS_AS(with("AWS_REGION", "a/b"), input_error);
  for (const auto* endpoint : {"h:1", "ftp://h", "http://", "http://user:word@h", "http://h?x"})
    CHECK_THROWS_WITH(with("AWS_ENDPOINT_URL", endpoint),
                      ContainsSubstring("AWS_ENDPOINT_URL") && !ContainsSubstring("word"));
  CHECK_THROWS_WITH(service_from(variables(
                        {{"AWS_ACCESS_KEY_ID", "A"}, {"AWS_SECRET_ACCESS_KEY", "hid\r\nden"}})),
                    ContainsSubstring("control character") && !ContainsSubstring("hid"));
}

TEST_CASE("an invalid profile is reported by line, without its contents", "[object]") {
  CHECK_THROWS_WITH(parse_profiles("[a]\nx=1\nsecret\n", "c"),
                    ContainsSubstring("'c', line 3") && !ContainsSubstring("secret"));
  CHECK_THROWS_WITH(parse_profiles("x=1\n", "c"), ContainsSubstring("before the first"));
  CHECK_THROWS_WITH(parse_profiles("[a\n", "c"), ContainsSubstring("no ']'"));
  const auto found = parse_profiles("\r\n[ a ]\r\nX = 1 = 2\r\n; no\n[b]", "c");
  CHECK(found.at("a").at("x") == "1 = 2");
  CHECK(found.at("b").empty());
}

TEST_CASE("an error of S3 shows its code and message as printable text", "[object]") {
  const auto found = parse_refusal(
      "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>no\x1b[2J</Message></Error>");
  CHECK(found.code == "NoSuchKey");
  CHECK(found.message == "no?[2J");
  CHECK(parse_refusal("<Code>").code.empty());
  CHECK(parse_refusal("a proxy's page").message.empty());
}

TEST_CASE("a content range has three consistent numbers", "[object]") {
  const auto found = parse_content_range("bytes 5-9/10");
  REQUIRE(found);
  CHECK((found->first == 5 && found->last == 9 && found->whole == 10));
  for (const auto* text : {"",
                           "bytes 5-9",
                           "bytes 9-5/10",
                           "bytes 5-10/10",
                           "bytes */10",
                           "bytes 5-9/10x",
                           "bytes 5-9/99999999999999999999"})
    CHECK_FALSE(parse_content_range(text));
}

TEST_CASE("OBJECT-1: reads stay inside an object; the newest chunks are cached", "[object]") {
  const tests::answering_server server("0123456789");
  const object_store store({.endpoint = server.address()}, {.chunk = 4, .memory = 8});
  const object_url object{"lake", "x"};
  CHECK(store.facts(object) == object_facts{10, "\"1\""});
  CHECK(server.requests() == 1);  // the first chunk came with the facts
  CHECK(text_at(store, object, 1, 2) == "12");
  CHECK(server.requests() == 1);
  CHECK(text_at(store, object, 3, 7) == "3456789");
  CHECK(server.requests() == 3);
  CHECK(text_at(store, object, 4, 6) == "456789");
  CHECK(server.requests() == 3);
  CHECK(text_at(store, object, 0, 1) == "0");  // this chunk was evicted
  CHECK(server.requests() == 4);
  CHECK(text_at(store, object, 10, 0).empty());
  CHECK_THROWS_AS(text_at(store, object, 9, 2), broken_promise);
  CHECK_THROWS_AS(text_at(store, object, 11, 0), broken_promise);
}

TEST_CASE("concurrent readers of a chunk share one request", "[object]") {
  const std::string whole = "the actors of this play are all here";
  const tests::answering_server server(whole);
  const object_store store({.endpoint = server.address()}, {.chunk = 8, .memory = 64});
  const object_url object{"lake", "x"};
  CHECK(store.facts(object).size == whole.size());
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> readers;
    for (int r = 0; r < 6; ++r)
      readers.push_back(start_thread("reader", [&, r] {
        for (std::size_t i = 0; i + 9 <= whole.size(); ++i) {
          const auto at = (i + std::size_t(r) * 5) % (whole.size() - 9);
          wrong += text_at(store, object, at, 9) != whole.substr(at, 9) ? 1 : 0;
        }
      }));
  }
  CHECK(wrong == 0);
  CHECK(server.requests() == 5);
}

TEST_CASE("expected reads are fetched ahead, once", "[object]") {
  const std::string whole = "0123456789abcdefghijklmnopqrstuvwxyz";
  const tests::answering_server server(whole);
  const object_store store({.endpoint = server.address()}, {.chunk = 4, .memory = 80});
  const object_url object{"lake", "x"};
  store.expect(object, 4, 8);  // before any read of the object
  CHECK(server.requests() == 0);
  store.facts(object);
  store.expect(object, 6, 5);
  store.expect(object, 0, 12);
  store.expect(object, 30, 7);  // beyond the end
  store.expect(object, 3, 0);
  REQUIRE(tests::soon([&] { return server.requests() == 3; }));
  CHECK(text_at(store, object, 0, 12) == whole.substr(0, 12));
  CHECK(server.requests() == 3);
  CHECK(text_at(store, object, 0, whole.size()) == whole);
  CHECK(server.requests() == 9);
  store.expect(object, 0, whole.size());  // all is cached
  CHECK(text_at(store, object, 0, whole.size()) == whole);
  CHECK(server.requests() == 9);
}

TEST_CASE("read-ahead is bounded, and reads make room for more", "[object]") {
  const std::string whole(40, 'x');
  const tests::answering_server server(whole);
  const object_url object{"lake", "x"};
  // Each allows two chunks, by one limit or the other.
  for (const auto& limits : {object_limits{.chunk = 4, .memory = 400, .ahead = 8},
                             object_limits{.chunk = 4, .memory = 16, .ahead = 400}}) {
    const object_store store({.endpoint = server.address()}, limits);
    const auto before = server.requests();
    const auto requests = [&] { return server.requests() - before; };
    store.facts(object);
    store.expect(object, 4, 36);
    REQUIRE(tests::soon([&] { return requests() == 3; }));
    store.expect(object, 4, 36);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // time for unexpected requests
    CHECK(requests() == 3);
    CHECK(text_at(store, object, 4, 8).size() == 8);
    CHECK(requests() == 3);
    store.expect(object, 12, 28);
    REQUIRE(tests::soon([&] { return requests() == 5; }));
    CHECK(text_at(store, object, 12, 8).size() == 8);
    CHECK(requests() == 5);
  }
}

TEST_CASE("chunks that are evicted before they are read make room for read-ahead, too",
          "[object]") {
  const std::string whole(80, 'x');
  const tests::answering_server server(whole);
  const object_store store({.endpoint = server.address()}, {.chunk = 4, .memory = 16});
  const object_url object{"lake", "x"};
  store.facts(object);
  store.expect(object, 4, 8);
  REQUIRE(tests::soon([&] { return server.requests() == 3; }));
  text_at(store, object, 40, 40);  // four chunks are cached, and all are of this read now
  CHECK(server.requests() == 13);
  store.expect(object, 12, 8);
  CHECK(tests::soon([&] { return server.requests() == 15; }));
}

TEST_CASE("after a failed read-ahead a chunk is requested again by its read", "[object]") {
  const tests::answering_server server("0123456789ab");
  const object_store store({.endpoint = server.address()},
                           {.chunk = 4, .memory = 400, .ahead = 8, .attempts = 2});
  const object_url object{"lake", "x"};
  store.facts(object);
  server.refuse(2);
  store.expect(object, 4, 8);
  REQUIRE(tests::soon([&] { return server.requests() == 3; }));  // one attempt each
  // The failed chunks free their room a moment later.
  REQUIRE(tests::soon([&] {
    store.expect(object, 4, 4);
    return server.requests() == 4;
  }));
  CHECK(text_at(store, object, 0, 12) == "0123456789ab");
  CHECK(server.requests() == 5);
}

TEST_CASE("destroying a store does not wait for its requests", "[object]") {
  const tests::answering_server mute("0123456789", 1);
  const object_url object{"lake", "x"};
  auto store = std::make_unique<object_store>(object_service{.endpoint = mute.address()},
                                              object_limits{.chunk = 4, .memory = 400});
  store->facts(object);
  store->expect(object, 4, 6);
  REQUIRE(tests::soon([&] { return mute.requests() == 2; }));
  const auto began = std::chrono::steady_clock::now();
  store.reset();
  // curl checks every second; an attempt takes 20.
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(10));
}

TEST_CASE("an unanswered request is retried as often as configured", "[object]") {
  const tests::answering_server silent;
  const object_store store({.endpoint = silent.address()},
                           {.attempts = 2,
                            .first_pause = std::chrono::milliseconds(1),
                            .silence = std::chrono::seconds(1)});
  CHECK_THROWS_WITH(store.facts({"lake", "x"}),
                    ContainsSubstring("s3://lake/x") && ContainsSubstring("2 attempts failed"));
}

TEST_CASE("waiting for an object ends with the run", "[object]") {
  using namespace std::chrono_literals;
  const tests::answering_server silent, mute("0123456789", 1);
  const object_url object{"lake", "x"};
  // Attempts take 20 s each. The limit is curl's one second, plus time for a loaded machine.
  const auto ends_soon = [&](const object_store& store, const auto& reads, auto grace) {
    const cancel_token ending;
    store.end_by(ending, grace);
    const auto began = std::chrono::steady_clock::now();
    auto signal = start_thread("signal", [&] {
      std::this_thread::sleep_for(200ms);
      ending.cancel();
    });
    CHECK_THROWS_WITH(reads(),
                      ContainsSubstring("s3://lake/x") && ContainsSubstring("told to end"));
    CHECK(std::chrono::steady_clock::now() - began < 10s);
    CHECK(std::chrono::steady_clock::now() - began > grace);
  };
  const object_store never({.endpoint = silent.address()});
  ends_soon(
      never, [&] { never.facts(object); }, 0ms);
  ends_soon(
      never, [&] { never.facts(object); }, 1500ms);
  const object_store half({.endpoint = mute.address()}, {.chunk = 4, .memory = 8});
  CHECK(text_at(half, object, 0, 4) == "0123");
  ends_soon(
      half, [&] { text_at(half, object, 4, 4); }, 0ms);
  CHECK(text_at(half, object, 0, 4) == "0123");  // cached: needs no request
  // The connection is refused: pauses between attempts end with the run, too.
  const object_store refused({.endpoint = "http://127.0.0.1:1"},
                             {.first_pause = 60s, .longest_pause = 60s});
  ends_soon(
      refused, [&] { refused.facts(object); }, 0ms);
}

TEST_CASE("leftover files of killed runs are removed when they are old", "[object]") {
  const tests::scratch_folder folder;
  const object_url object{"lake", "x"};
  const auto keep = [&](const tests::answering_server& server) {
    return std::string(
        object_store({.endpoint = server.address()}).kept(object, folder.path()).text());
  };
  const tests::answering_server server("0123456789");
  CHECK(keep(server) == "0123456789");
  std::filesystem::path kept;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    if (entry.path().extension() == ".object")
      kept = entry.path();
  const std::filesystem::path old = kept.string() + ".partial-1",
                              young = kept.string() + ".partial-2";
  for (const auto& part : {old, young, kept})
    std::ofstream(part) << "half";
  std::filesystem::last_write_time(
      old, std::filesystem::file_time_type::clock::now() - std::chrono::hours(25));
  CHECK(keep(server) == "0123456789");
  CHECK_FALSE(std::filesystem::exists(old));
  CHECK(std::filesystem::exists(young));
}
