// Fuzzes latest_checkpointed_iteration.txt beside two checkpoints.

#include "tests/fuzz/fuzz.hpp"
#include "tests/runtime/checkpoint/saved.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {"3\n", "12\n", "3", "100\n"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"release", "0000003", "-3", "3 ", "\n\n", "../iter_0000003"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto dir = fuzz::folder() / "run";
  static const bool saved = [&] {
    save(dir, 3);
    save(dir, 12);
    return true;
  }();
  fuzz::put(dir / tracker, fuzz::text_of(data, size));
  fuzz::accepted([&] {
    const auto found = latest_checkpoint(dir);
    fuzz::require(
        saved && found.folder
            && (*found.folder == dir / "iter_0000003" || *found.folder == dir / "iter_0000012"),
        "a valid checkpoint is found with any tracker");
  });
  return 0;
}
