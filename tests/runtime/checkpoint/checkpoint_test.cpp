#include "runtime/checkpoint/checkpoint.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/numbers.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
using troupe::tests::scratch_folder;
namespace fs = std::filesystem;

namespace {

gpt_config tiny_model() {
  gpt_config x;
  x.layers = 1;
  x.hidden = x.head_size = 8;
  x.heads = x.groups = 1;
  x.ffn = 32;
  x.sequence = x.positions = 16;
  x.vocabulary = x.padded_vocabulary = 32;
  return x;
}

/// Elements of the tensors of an iteration: other iterations have others.
std::vector<float> elements(std::int64_t iteration, std::size_t n = 64) {
  return troupe::tests::normal<float>(n, std::uint32_t(iteration));
}

fs::path save(const fs::path& dir, std::int64_t iteration, std::size_t n = 64) {
  checkpoint_writer writer(dir, iteration, generation_id{1});
  const auto a = elements(iteration, n), b = elements(iteration + 1, n);
  const std::int64_t size = std::int64_t(n);
  const tensor_to_write model[] = {{"a", stored_type::f32, {size / 8, 8}, a.data()}};
  const tensor_to_write optimizer[] = {{"exp_avg.a", stored_type::f32, {size / 8, 8}, b.data()},
                                       {"exp_avg_sq.a", stored_type::f32, {size / 8, 8}, a.data()}};
  checkpoint_manifest manifest;
  manifest.consumed_samples = 4 * iteration;
  manifest.model = tiny_model();
  manifest.identity = R"({"seed":1234})";
  manifest.layout = R"({"tensor":1})";
  manifest.shards.push_back(writer.write_shard(shard_file("model", 1, 1), model));
  manifest.shards.push_back(writer.write_shard(shard_file("optimizer", 1, 1), optimizer));
  return writer.commit(manifest);
}

bool has_elements_of(const fs::path& folder, std::int64_t iteration) {
  const checkpoint_reader reader(folder);
  std::vector<float> a(64), b(64);
  reader.read("a", a);
  reader.read("exp_avg.a", b);
  return a == elements(iteration) && b == elements(iteration + 1);
}

std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(dir))
    out.push_back(entry.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

void flip_byte(const fs::path& path, std::streamoff from_end) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(-from_end, std::ios::end);
  const char x = char(file.get() ^ 1);
  file.seekp(-from_end, std::ios::end);
  file.put(x);
}

/// Again and again over the same iterations, until killed.
[[noreturn]] void save_for_ever(const fs::path& dir) {
  try {
    const directory_lock lock(dir);
    for (;;) {
      save(dir, 2);
      save(dir, 3);
    }
  } catch (...) {
  }
  ::_exit(1);
}

using names = std::vector<std::string>;
const std::string tracker = "latest_checkpointed_iteration.txt";

}  // namespace

TEST_CASE("a checkpoint is read back as it was saved", "[checkpoint]") {
  const scratch_folder dir;
  const auto folder = save(dir.path(), 100);
  CHECK(folder == dir / "iter_0000100");
  CHECK(names_in(dir.path()) == names{"iter_0000100", tracker});
  CHECK(names_in(folder)
        == names{"manifest.json",
                 "model-00001-of-00001.safetensors",
                 "optimizer-00001-of-00001.safetensors"});
  CHECK(read_text(dir / tracker) == "100\n");
  const auto reader = open_checkpoint(folder);
  CHECK(reader->manifest().iteration == 100);
  CHECK(reader->manifest().consumed_samples == 400);
  CHECK(reader->manifest().generation == generation_id{1});
  CHECK(reader->manifest().model == tiny_model());
  CHECK(reader->manifest().identity == R"({"seed":1234})");
  CHECK(reader->manifest().layout == R"({"tensor":1})");
  CHECK(reader->has("exp_avg_sq.a"));
  CHECK_FALSE(reader->has("b"));
  CHECK(reader->extents("a") == shape{8, 8});
  CHECK(has_elements_of(folder, 100));
  std::vector<float> wrong_size(63);
  CHECK_THROWS_WITH(reader->read("a", wrong_size), ContainsSubstring("(8, 8)"));
  CHECK_THROWS_WITH(reader->extents("b"), ContainsSubstring("no tensor 'b'"));
}

TEST_CASE("the same state gives the same bytes of a checkpoint", "[checkpoint]") {
  const scratch_folder one, two;
  save(one.path(), 3);
  save(two.path(), 3);
  for (const auto& name : names_in(one / "iter_0000003"))
    CHECK(read_text(one / ("iter_0000003/" + name)) == read_text(two / ("iter_0000003/" + name)));
}

TEST_CASE("what was not committed leaves nothing behind", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  {
    checkpoint_writer writer(dir.path(), 2, generation_id{1});
    const auto a = elements(2);
    const tensor_to_write tensors[] = {{"a", stored_type::f32, {64}, a.data()}};
    writer.write_shard("model-00001-of-00001.safetensors", tensors);
    CHECK(names_in(dir.path()).front() == ".iter_0000002.generation-1.partial");
  }
  CHECK(names_in(dir.path()) == names{"iter_0000001", tracker});
}

TEST_CASE("nothing of a generation that has ended becomes visible", "[checkpoint]") {
  const scratch_folder dir;
  const cancel_token token;
  {
    checkpoint_writer writer(dir.path(), 2, generation_id{1}, token);
    token.cancel();
    CHECK_THROWS_AS(writer.commit(checkpoint_manifest()), cancelled);
  }
  CHECK(names_in(dir.path()).empty());
}

TEST_CASE("a checkpoint of the same iteration is replaced by the newer one", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 5);
  {
    checkpoint_writer writer(dir.path(), 5, generation_id{2});
    const auto a = elements(6), b = elements(7);
    const tensor_to_write tensors[] = {{"a", stored_type::f32, {64}, a.data()},
                                       {"exp_avg.a", stored_type::f32, {64}, b.data()}};
    checkpoint_manifest manifest;
    manifest.model = tiny_model();
    manifest.shards.push_back(writer.write_shard("all.safetensors", tensors));
    writer.commit(manifest);
  }
  CHECK(names_in(dir.path()) == names{"iter_0000005", tracker});
  CHECK(has_elements_of(dir / "iter_0000005", 6));
}

TEST_CASE("shards are written by several threads at once", "[checkpoint]") {
  const scratch_folder dir;
  checkpoint_writer writer(dir.path(), 1, generation_id{1});
  checkpoint_manifest manifest;
  manifest.model = tiny_model();
  manifest.shards.resize(4);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      const auto x = elements(i);
      const tensor_to_write tensors[]
          = {{"t" + std::to_string(i), stored_type::f32, {64}, x.data()}};
      manifest.shards[std::size_t(i)] = writer.write_shard(shard_file("model", i + 1, 4), tensors);
    });
  for (auto& thread : threads)
    thread.join();
  const auto reader = open_checkpoint(writer.commit(manifest));
  for (int i = 0; i < 4; ++i) {
    std::vector<float> x(64);
    reader->read("t" + std::to_string(i), x);
    CHECK(x == elements(i));
  }
}

TEST_CASE("a shard that the manifest forgets breaks a promise", "[checkpoint]") {
  const scratch_folder dir;
  checkpoint_writer writer(dir.path(), 1, generation_id{1});
  writer.write_shard("model-00001-of-00001.safetensors", {});
  CHECK_THROWS_AS(writer.commit(checkpoint_manifest()), broken_promise);
  CHECK_THROWS_AS(writer.write_shard("model-00001-of-00001.safetensors", {}), broken_promise);
  CHECK_THROWS_AS(writer.write_shard("../model.safetensors", {}), input_error);
}

TEST_CASE("damage is reported with its file and its tensor", "[checkpoint]") {
  const scratch_folder dir;
  const auto folder = save(dir.path(), 7);
  flip_byte(folder / "optimizer-00001-of-00001.safetensors", 1);
  const checkpoint_reader reader(folder);
  CHECK_THROWS_WITH(reader.verify(),
                    ContainsSubstring("optimizer-00001-of-00001.safetensors' is damaged in tensor "
                                      "'exp_avg_sq.a'"));
  std::vector<float> out(64);
  CHECK_THROWS_WITH(reader.read("exp_avg_sq.a", out), ContainsSubstring("'exp_avg_sq.a'"));
  reader.read("exp_avg.a", out);
  CHECK(out == elements(8));
}

TEST_CASE("a manifest that was changed by one bit is refused", "[checkpoint]") {
  const scratch_folder dir;
  const auto folder = save(dir.path(), 7);
  const auto text = read_text(folder / "manifest.json");
  for (std::size_t at = 0; at < text.size(); ++at) {
    auto changed = text;
    changed[at] = char(changed[at] ^ 1);
    try {
      manifest_from_json(changed, "'it'");
      FAIL_CHECK("accepted with byte " << at << " changed");
    } catch (const input_error&) {
    }
  }
  for (std::size_t size = 0; size < text.size(); ++size)
    CHECK_THROWS_AS(manifest_from_json(text.substr(0, size), "'it'"), input_error);
}

TEST_CASE("shards of two checkpoints do not make one", "[checkpoint]") {
  const scratch_folder dir;
  const auto one = save(dir.path(), 1), two = save(dir.path(), 2);
  fs::copy_file(one / "model-00001-of-00001.safetensors",
                two / "model-00001-of-00001.safetensors",
                fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(open_checkpoint(two), ContainsSubstring("is damaged in tensor 'a'"));
  fs::copy_file(one / "optimizer-00001-of-00001.safetensors",
                two / "model-00001-of-00001.safetensors",
                fs::copy_options::overwrite_existing);
  CHECK_THROWS_WITH(open_checkpoint(two), ContainsSubstring("should have"));
  fs::remove(two / "model-00001-of-00001.safetensors");
  CHECK_THROWS_WITH(open_checkpoint(two), ContainsSubstring("No such file"));
}

TEST_CASE("the latest checkpoint is the one that the tracker names", "[checkpoint]") {
  const scratch_folder dir;
  CHECK_FALSE(latest_checkpoint(dir.path()).folder);
  CHECK_FALSE(latest_checkpoint(dir / "none").folder);
  save(dir.path(), 1);
  save(dir.path(), 2);
  auto found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  CHECK(found.warnings.empty());
  write_text(dir / tracker, "1");  // a run went back: what is newer was left behind
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000001");
  CHECK(found.warnings.empty());
}

TEST_CASE("a damaged latest checkpoint gives way to an older one, never silently", "[checkpoint]") {
  const scratch_folder dir;
  for (const int iteration : {1, 2, 3})
    save(dir.path(), iteration);
  flip_byte(dir / "iter_0000003/model-00001-of-00001.safetensors", 1);
  auto found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  REQUIRE(found.warnings.size() == 2);
  CHECK_THAT(found.warnings[0], ContainsSubstring("iter_0000003") && ContainsSubstring("'a'"));
  fs::remove(dir / "iter_0000002/manifest.json");
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000001");
  CHECK(found.warnings.size() == 3);
  fs::remove_all(dir / "iter_0000003");
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000001");
  CHECK_THAT(found.warnings.at(0), ContainsSubstring("no folder 'iter_0000003'"));
  fs::remove(dir / "iter_0000001/model-00001-of-00001.safetensors");
  CHECK_THROWS_WITH(latest_checkpoint(dir.path()), ContainsSubstring("no checkpoint"));
}

TEST_CASE("a tracker that is missing or says nonsense is reported", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  save(dir.path(), 2);
  write_text(dir / tracker, "release\n");
  auto found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  CHECK_THAT(found.warnings.at(0), ContainsSubstring("'release"));
  fs::remove(dir / tracker);
  found = latest_checkpoint(dir.path());
  CHECK(found.folder == dir / "iter_0000002");
  CHECK_THAT(found.warnings.at(0), ContainsSubstring("is missing"));
}

TEST_CASE("only the newest checkpoints are kept, and the tracked one always", "[checkpoint]") {
  const scratch_folder dir;
  for (const int iteration : {1, 2, 3, 4, 5})
    save(dir.path(), iteration);
  fs::remove(dir / "iter_0000004/manifest.json");  // does not count
  const auto removed = remove_all_but_latest(dir.path(), 2);
  CHECK(removed == std::vector<fs::path>{dir / "iter_0000002", dir / "iter_0000001"});
  CHECK(names_in(dir.path()) == names{"iter_0000003", "iter_0000004", "iter_0000005", tracker});
  CHECK(has_elements_of(dir / "iter_0000005", 5));
  write_text(dir / tracker, "3");
  CHECK(remove_all_but_latest(dir.path(), 1).empty());
}

TEST_CASE("two runs cannot save into one folder", "[checkpoint]") {
  const scratch_folder dir;
  {
    const directory_lock first(dir / "new");
    CHECK_THROWS_WITH(directory_lock(dir / "new"),
                      ContainsSubstring("process " + std::to_string(::getpid()) + " is saving"));
  }
  const directory_lock again(dir / "new");
}

TEST_CASE("what dead writers left is cleared away at the next start, and nothing else",
          "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  save(dir.path(), 2);
  for (const auto* name : {".iter_0000003.generation-1.partial",
                           ".iter_12345678.generation-18446744073709551615.partial",
                           ".iter_0000004.removed",
                           ".iter_0000002.replaced",
                           ".iter_3.generation-1.partial",
                           ".iter_0000003.generation-.partial",
                           ".iter_0000003.generation-1.partial.mine",
                           "iter_0000003.generation-1.partial"}) {
    fs::create_directory(dir / name);
    std::ofstream(dir / name / "x") << "x";
  }
  std::ofstream(dir / (tracker + ".partial-123")) << "3";
  std::ofstream(dir / (tracker + ".partial-mine")) << "3";
  fs::rename(dir / "iter_0000001", dir / ".iter_0000001.replaced");  // died between two renames
  const directory_lock lock(dir.path());
  CHECK(names_in(dir.path())
        == names{".iter_0000003.generation-.partial",
                 ".iter_0000003.generation-1.partial.mine",
                 ".iter_3.generation-1.partial",
                 ".lock",
                 "iter_0000001",
                 "iter_0000002",
                 "iter_0000003.generation-1.partial",
                 tracker,
                 tracker + ".partial-mine"});
  CHECK(has_elements_of(dir / "iter_0000001", 1));
}

TEST_CASE("a writer killed at any moment leaves a valid latest checkpoint", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  for (int attempt = 0; attempt < 20; ++attempt) {
    const auto child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0)
      save_for_ever(dir.path());
    ::usleep(useconds_t(500 + 1700 * attempt));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    const auto found = latest_checkpoint(dir.path());
    CHECK(found.warnings.empty());
    REQUIRE(found.folder);
    CHECK(has_elements_of(*found.folder, *iteration_of_folder(found.folder->filename().string())));
  }
  const directory_lock lock(dir.path());
  for (const auto& name : names_in(dir.path()))
    CHECK((name == ".lock" || name == tracker || iteration_of_folder(name)));
}

TEST_CASE("a file that may not grow is an error that leaves the older checkpoint", "[checkpoint]") {
  const scratch_folder dir;
  save(dir.path(), 1);
  rlimit before = {};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto old_action = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t limit : {0, 100, 500, 600, 700, 1000}) {
    const rlimit small = {limit, before.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &small);
    std::string refusal;
    try {
      save(dir.path(), 2);
    } catch (const io_error& failure) {
      refusal = failure.what();
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    CHECK_THAT(refusal,
               ContainsSubstring("File too large") && ContainsSubstring(dir.path().string()));
    CHECK(names_in(dir.path()) == names{"iter_0000001", tracker});
    CHECK(latest_checkpoint(dir.path()).folder == dir / "iter_0000001");
  }
  std::signal(SIGXFSZ, old_action);
}

TEST_CASE("a full disk is an error that leaves the older checkpoint", "[checkpoint]") {
  const scratch_folder around;
  const auto dir = around / "full";
  fs::create_directory(dir);
  if (::mount("tmpfs", dir.c_str(), "tmpfs", 0, "size=1m") != 0)
    SKIP("needs the right to mount a file system");
  save(dir, 1);
  for (const std::size_t n : {100000, 150000, 400000}) {  // 0.4, 0.6 and 1.6 MB a tensor
    std::string refusal;
    try {
      save(dir, 2, n);
    } catch (const io_error& failure) {
      refusal = failure.what();
    }
    CHECK_THAT(
        refusal,
        ContainsSubstring("No space left on device") && ContainsSubstring("free some space"));
    CHECK(names_in(dir) == names{"iter_0000001", tracker});
    CHECK(latest_checkpoint(dir).folder == dir / "iter_0000001");
  }
  save(dir, 2);  // there is space again
  CHECK(latest_checkpoint(dir).folder == dir / "iter_0000002");
  REQUIRE(::mount("", dir.c_str(), "", MS_REMOUNT | MS_RDONLY, "") == 0);
  CHECK_THROWS_WITH(save(dir, 3), ContainsSubstring("Read-only file system"));
  CHECK_THROWS_AS(directory_lock(dir), io_error);
  CHECK(latest_checkpoint(dir).folder == dir / "iter_0000002");
  CHECK(::umount(dir.c_str()) == 0);
}
