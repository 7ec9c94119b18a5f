// A child process of a test; its destructor kills it.

#pragma once

#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace troupe::tests {

class child {
 public:
  explicit child(std::vector<std::string> command) {
    int ends[2];
    if (::pipe(ends) != 0)
      throw std::runtime_error("no pipe");
    std::vector<char*> words;
    for (auto& word : command)
      words.push_back(word.data());
    words.push_back(nullptr);
    process_ = ::fork();
    if (process_ == 0) {
      ::dup2(ends[1], STDOUT_FILENO);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execv(words[0], words.data());
      ::_exit(127);
    }
    ::close(ends[1]);
    out_ = ::fdopen(ends[0], "r");
  }
  ~child() {
    end();
    std::fclose(out_);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;

  /// Waits for the next line of its output, without the newline. Empty at the end of the output.
  std::string line() {
    std::string out;
    for (int c = std::fgetc(out_); c != EOF && c != '\n'; c = std::fgetc(out_))
      out += char(c);
    return out;
  }
  /// Sends SIGSTOP and returns when the process has stopped.
  void stop() const {
    ::kill(process_, SIGSTOP);
    ::waitpid(process_, nullptr, WUNTRACED);
  }
  void go_on() const { ::kill(process_, SIGCONT); }
  /// Sends SIGKILL and waits for the end of the process.
  void end() {
    if (process_ < 0)
      return;
    ::kill(process_, SIGKILL);
    ::waitpid(process_, nullptr, 0);
    process_ = -1;
  }

 private:
  pid_t process_ = -1;
  FILE* out_ = nullptr;
};

}  // namespace troupe::tests
