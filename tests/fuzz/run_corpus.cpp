// Runs a fuzz target without a fuzzer: on its seeds, on the kept inputs, and on a fixed number of
// reproducible mutations of them.
//
//   fuzz_<what> [MUTATIONS] [FOLDER or FILE]...      default: 10000 mutations, no folders
//
// If an input breaks the target, writes it to "<what>.crash" in the current folder.

#include "runtime/core/log.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/mutate.hpp"

#include <csignal>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

using namespace troupe::tests;

namespace {

constexpr rlim_t most_memory = rlim_t{256} << 20;
constexpr int most_seconds = 20;  // of CPU time, so that a busy machine causes no failure

std::string crash_file;
const std::string* input = nullptr;

extern "C" void keep_input(int signal) {
  const int to = ::open(crash_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (to >= 0 && input != nullptr && ::write(to, input->data(), input->size()) >= 0)
    ::close(to);
  const char text[] = "fuzz: broken; the input is in *.crash\n";
  if (::write(STDERR_FILENO, text, sizeof text - 1) < 0)
    ::_exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // these reserve huge ranges
  std::ifstream about("/proc/self/statm");
  rlim_t pages = 0;
  about >> pages;
  const auto most = pages * rlim_t(::sysconf(_SC_PAGESIZE)) + most_memory;
  const rlimit limit = {most, most};
  ::setrlimit(RLIMIT_AS, &limit);
#endif
}

void run(const std::string& x) {
  input = &x;
  const itimerval limit = {{0, 0}, {most_seconds, 0}};
  ::setitimer(ITIMER_PROF, &limit, nullptr);
  // A separate allocation of exactly this size, so that sanitizers see a read past its end.
  const std::vector<std::uint8_t> bytes(x.begin(), x.end());
  LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
}

std::vector<std::string> read_inputs(const std::vector<std::string>& places) {
  std::vector<std::string> out;
  for (const auto& place : places) {
    std::vector<std::filesystem::path> files = {place};
    if (std::filesystem::is_directory(place))
      files.assign(std::filesystem::directory_iterator(place), {});
    std::sort(files.begin(), files.end());
    for (const auto& file : files)
      out.push_back(fuzz::get(file));
  }
  return out;
}

}  // namespace

extern "C" const char* __asan_default_options() {
  return "abort_on_error=1:max_allocation_size_mb=256";
}

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto mutations = words.empty() ? 10000 : std::stoull(words[0]);
  crash_file = std::filesystem::path(argv[0]).filename().string() + ".crash";
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGPROF})
    std::signal(signal, keep_input);
  troupe::runtime::set_log_level(troupe::runtime::severity::error);
  auto corpus = fuzz::seeds();
  limit_memory();

  for (const auto& x : corpus)
    run(x);
  if (fuzz::counted.accepted < corpus.size()) {
    std::fprintf(stderr,
                 "fuzz: only %llu of %zu seeds were accepted; all seeds must be valid inputs\n",
                 static_cast<unsigned long long>(fuzz::counted.accepted),
                 corpus.size());
    return 1;
  }
  const auto kept = read_inputs({words.begin() + (words.empty() ? 0 : 1), words.end()});
  for (const auto& x : kept)
    run(x);
  corpus.insert(corpus.end(), kept.begin(), kept.end());
  fuzz::mutator next(1234, corpus, fuzz::dictionary());
  for (std::uint64_t i = 0; i < mutations; ++i)
    run(next.next());
  std::printf("%zu kept inputs and %llu mutations: %llu accepted, %llu refused\n",
              corpus.size(),
              static_cast<unsigned long long>(mutations),
              static_cast<unsigned long long>(fuzz::counted.accepted),
              static_cast<unsigned long long>(fuzz::counted.refused));
  return 0;
}
