#include "runtime/launch/launch_folder.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/credentials.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <optional>
#include <string>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

TEST_CASE("the folder of a launch appears with address and credentials, and is removed",
          "[launch]") {
  const troupe::tests::scratch_folder shared;
  const auto path = launch_folder_path(shared.path() / "save", "12.0");
  CHECK(path == shared.path() / "save" / ".launch-12.0");
  CHECK_FALSE(find_launch_folder(path, false));
  {
    launch_folder made(path, false);
    CHECK_FALSE(find_launch_folder(path, false));
    made.publish("10.0.0.1", 4000);
    const auto found = find_launch_folder(path, false);
    REQUIRE(found);
    CHECK(found->address == "10.0.0.1");
    CHECK(found->port == 4000);
    CHECK(read_credentials(found->credentials) == read_credentials(made.credentials()));
    CHECK(fs::status(path).permissions() == fs::perms::owner_all);
  }
  CHECK_FALSE(find_launch_folder(path, false));
  CHECK(fs::is_empty(shared.path() / "save"));
}

TEST_CASE("a launch replaces the folder that a killed one left", "[launch]") {
  const troupe::tests::scratch_folder shared;
  const auto path = launch_folder_path(shared.path(), "x");
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all);
  launch_folder made(path, true);
  CHECK_FALSE(fs::exists(path));
  made.publish("::1", 4001);
  const auto found = find_launch_folder(path, true);
  REQUIRE(found);
  CHECK(found->address == "::1");
  CHECK(found->credentials.empty());
}

TEST_CASE(
    "the folder that a killed start of a launch left is removed, that of a living one is kept",
    "[launch]") {
  const troupe::tests::scratch_folder shared;
  const auto left = shared / ".launch-1.0", lives = shared / ".launch-2.0";
  fs::create_directory(left);
  fs::permissions(left, fs::perms::owner_all);
  write_text(left / "secret", "x");
  launch_folder living(lives, true);
  living.publish("::1", 4001);
  write_text(shared / "checkpoint", "x");
  fs::create_directory(shared / ".launch-4.0.new");  // killed before it was published
  fs::permissions(shared / ".launch-4.0.new", fs::perms::owner_all);
  remove_left_launch_folders(shared / ".launch-3.0");
  CHECK_FALSE(fs::exists(left));
  CHECK_FALSE(fs::exists(shared / ".launch-4.0.new"));
  CHECK(find_launch_folder(lives, true));
  CHECK(fs::exists(shared / "checkpoint"));
}

TEST_CASE("a launch whose rank 0 does not start says why in its folder", "[launch]") {
  const troupe::tests::scratch_folder shared;
  const auto path = shared / ".launch-1.0";
  launch_folder made(path, true);
  made.publish_failure("no interface 'ib0'");
  const auto found = find_launch_folder(path, true);
  REQUIRE(found);
  CHECK(found->failure == "no interface 'ib0'");
}

TEST_CASE("a folder of a launch that others may enter is refused", "[launch]") {
  const troupe::tests::scratch_folder shared;
  const auto path = shared / "open";
  fs::create_directory(path);
  fs::permissions(path, fs::perms::owner_all | fs::perms::group_read);
  CHECK_THROWS_AS(find_launch_folder(path, true), input_error);
  CHECK_THROWS_AS(launch_folder(path, true), input_error);
  CHECK(fs::exists(path));
}

TEST_CASE("the path of a launch's folder has a safe name", "[launch]") {
  CHECK_THAT(launch_folder_path({}, "prterun-a-1@1/../x").string(),
             ContainsSubstring("troupe-launch-") && ContainsSubstring("prterun-a-1_1_.._x"));
}
