// Runs a fuzz target under libFuzzer with its seeds and its dictionary.
//
//   fuzz_<what> [LIBFUZZER OPTION]... [FOLDER]...    writes new inputs to the first folder
//
// Default limits of memory and time: those of fuzz.hpp.

#include "runtime/core/log.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::tests;

extern "C" int LLVMFuzzerRunDriver(int* argc,
                                   char*** argv,
                                   int (*target)(const std::uint8_t* data, std::size_t size));

namespace {

std::string quoted(const std::string& word) {
  std::string out = "\"";
  char code[8];
  for (const char c : word) {
    std::snprintf(code, sizeof code, "\\x%02x", unsigned(static_cast<unsigned char>(c)));
    out += code;
  }
  return out + "\"\n";
}

}  // namespace

int main(int argc, char** argv) {
  troupe::runtime::set_log_level(troupe::runtime::severity::error);
  const scratch_folder around;
  const auto fresh = around / "new", seeds = around / "seeds", words = around / "words";
  std::filesystem::create_directories(fresh);
  std::filesystem::create_directories(seeds);
  int number = 0;
  for (const auto& x : fuzz::seeds())
    fuzz::put(seeds / std::to_string(number++), x);
  std::string dictionary;
  for (const auto& word : fuzz::dictionary())
    dictionary += quoted(word);
  fuzz::put(words, dictionary);

  std::vector<std::string> all
      = {argv[0], "-timeout=20", "-malloc_limit_mb=256", "-dict=" + words.string()};
  all.insert(all.end(), argv + 1, argv + argc);
  if (argc < 2 || argv[argc - 1][0] == '-')
    all.push_back(fresh.string());
  all.push_back(seeds.string());
  std::vector<char*> pointers;
  for (auto& word : all)
    pointers.push_back(word.data());
  int count = int(pointers.size());
  char** list = pointers.data();
  return LLVMFuzzerRunDriver(&count, &list, LLVMFuzzerTestOneInput);
}
