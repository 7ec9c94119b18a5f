#include "runtime/core/error.hpp"
#include "runtime/core/git_hash.hpp"
#include "runtime/file/file.hpp"
#include "runtime/hub/hub_cache.hpp"
#include "runtime/hub/hub_listing.hpp"
#include "runtime/hub/hub_name.hpp"
#include "runtime/hub/hub_request.hpp"
#include "runtime/hub/hub_service.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

using namespace troupe;
using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

hub_service with(std::map<std::string, std::string> all) {
  return hub_service_from([&](const char* name) -> std::optional<std::string> {
    const auto at = all.find(name);
    return at == all.end() ? std::nullopt : std::optional(at->second);
  });
}

}  // namespace

TEST_CASE("a name of the Hub is ORG/NAME with an optional revision", "[hub]") {
  CHECK(parse_hub_name("Qwen/Qwen3-0.6B") == hub_name{"Qwen/Qwen3-0.6B", "main"});
  CHECK(parse_hub_name("a/b_c@refs/pr/1") == hub_name{"a/b_c", "refs/pr/1"});
  CHECK(to_string(*parse_hub_name("a/b@v1.0")) == "a/b@v1.0");
  CHECK(to_string(*parse_hub_name("a/b@main")) == "a/b");
  for (const auto* text : {"gpt2",
                           "a/b/c",
                           "/a/b",
                           "./a/b",
                           "a/",
                           "../b",
                           "a/..",
                           "a--b/c",
                           "a/b c",
                           "a/b@",
                           "a/b@../x",
                           "a/b@x/",
                           "a/b@-x",
                           "s3://a"})
    CHECK_FALSE(parse_hub_name(text));
  CHECK(is_hub_commit("0123456789abcdef0123456789abcdef01234567"));
  CHECK_FALSE(is_hub_commit("0123456"));
}

TEST_CASE("the variables of huggingface_hub name endpoint, cache and token", "[hub]") {
  const auto usual = with({{"HOME", "/h"}});
  CHECK(usual.endpoint == "https://huggingface.co");
  CHECK(usual.cache == "/h/.cache/huggingface/hub");
  CHECK((usual.token.empty() && !usual.offline));
  CHECK(with({{"HOME", "/h"}, {"XDG_CACHE_HOME", "/c"}}).cache == "/c/huggingface/hub");
  CHECK(with({{"HOME", "/h"}, {"HF_HOME", "~/f"}}).cache == "/h/f/hub");
  CHECK(with({{"HF_HOME", "/f"}, {"HF_HUB_CACHE", "/k"}}).cache == "/k");
  CHECK(with({{"HOME", "/h"}, {"HF_ENDPOINT", "http://m:1/"}}).endpoint == "http://m:1");
  CHECK(with({{"HOME", "/h"}, {"HF_HUB_OFFLINE", "yes"}}).offline);
  CHECK_FALSE(with({{"HOME", "/h"}, {"HF_HUB_OFFLINE", "0"}}).offline);
  CHECK_THROWS_WITH(with({}), ContainsSubstring("HF_HUB_CACHE"));
  for (const auto* endpoint : {"m:1", "ftp://m", "https://", "https://user:hid@m", "http://m?x"})
    CHECK_THROWS_WITH(with({{"HOME", "/h"}, {"HF_ENDPOINT", endpoint}}),
                      ContainsSubstring("HF_ENDPOINT") && !ContainsSubstring("hid"));
  const tests::scratch_folder home;
  std::ofstream(home / "token") << "hf_file\n";
  CHECK(with({{"HF_HOME", home.path().string()}}).token == "hf_file");
  CHECK(with({{"HF_HOME", home.path().string()}, {"HF_TOKEN", " hf_set\n"}}).token == "hf_set");
  CHECK_THROWS_WITH(with({{"HF_HOME", home.path().string()}, {"HF_TOKEN", "hid\r\nden"}}),
                    ContainsSubstring("token") && !ContainsSubstring("hid"));
}

TEST_CASE("DOWNLOAD-1: another host, port or scheme has another origin", "[hub]") {
  CHECK(origin_of("https://a.b/c/d") == "https://a.b");
  CHECK(origin_of("http://a:1") == "http://a:1");
  for (const auto* other : {"http://a/x", "https://a:1/x", "https://a.b/x", "https://a@b/x"})
    CHECK(origin_of(other) != origin_of("https://a"));
}

TEST_CASE("answers of a Hub name files of the model's own folder", "[hub]") {
  const std::string commit = "0123456789abcdef0123456789abcdef01234567";
  const auto listing = parse_hub_listing(
      R"({"sha": ")" + commit
          + R"(", "siblings": [{"rfilename": "config.json"}, {"rfilename": 1}, 2,
          {"rfilename": "additional_chat_templates/a.jinja"},
          {"rfilename": "additional_chat_templates/../../b.jinja"}]})",
      "here");
  CHECK(listing.commit == commit);
  CHECK(listing.files.contains("config.json"));
  CHECK(further_templates_in(listing)
        == std::vector<std::string>{"additional_chat_templates/a.jinja"});
  for (const auto* text : {"", "[]", "{}", R"({"sha": "main", "siblings": []})", "<html>"})
    CHECK_THROWS_WITH(parse_hub_listing(text, "here"), ContainsSubstring("HF_ENDPOINT"));
  CHECK(shards_in(R"({"weight_map": {"a": "x.safetensors", "b": "x.safetensors"}})", "i").size()
        == 1);
  for (const auto* text : {"{}",
                           R"({"weight_map": {"a": 1}})",
                           R"({"weight_map": {"a": "../x"}})",
                           R"({"weight_map": {"a": "/x"}})"})
    CHECK_THROWS_AS(shards_in(text, "i"), io_error);
}

TEST_CASE("a link of the cache replaces a link to a removed blob, but no file", "[hub]") {
  const tests::scratch_folder folder;
  const hub_cache cache(folder.path(), "a/b");
  const std::string commit(40, 'c'), etag(40, 'e');
  const auto path = cache.snapshot(commit) / "config.json";
  make_folder(path.parent_path());
  make_folder(cache.blob(etag).parent_path());
  write_text(cache.blob(etag), "{}");
  std::filesystem::create_symlink("removed", path);
  cache.link(commit, "config.json", etag);
  CHECK(std::filesystem::is_symlink(path));
  CHECK(read_text(path) == "{}");
  std::filesystem::remove(path);
  write_text(path, "of a faster process");
  cache.link(commit, "config.json", etag);
  CHECK(read_text(path) == "of a faster process");
  const std::filesystem::directory_iterator files(path.parent_path());
  CHECK(std::distance(begin(files), end(files)) == 1);
}

TEST_CASE("a file has the hash that git gives it", "[hub]") {
  const std::string text = "hello\n";  // git hash-object
  CHECK(git_hash(std::as_bytes(std::span(text))) == "ce013625030ba8dba906f756967f9e9ca394464a");
  CHECK(git_hash({}) == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
}
