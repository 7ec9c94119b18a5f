#include "tests/emulator/symbols.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cxxabi.h>
#include <elf.h>
#include <fstream>
#include <iterator>
#include <link.h>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

extern "C" void* __tls_get_addr(void*);

namespace troupe::emulator {
namespace {

/// Symbols of one loaded file: functions by their address, thread-local variables of functions.
struct file_symbols {
  struct local {
    std::string function;  ///< mangled, without its leading _Z
    kernel_symbols::variable is;
  };
  std::map<std::uintptr_t, std::string> functions;
  std::vector<local> locals;
  std::size_t module = 0;
};

template <class T>
const T* at(const std::string& bytes, std::size_t offset) {
  return offset + sizeof(T) <= bytes.size() ? reinterpret_cast<const T*>(&bytes[offset]) : nullptr;
}

/// "_ZZ4foldPfE4part" is the variable `part` of the function "4foldPf". A mangled function name may
/// contain an E, so a local stores the whole text and the comparison uses its beginning.
void keep(file_symbols& to, const ElfW(Sym) & one, const char* name, std::uintptr_t base) {
  const auto type = ELF64_ST_TYPE(one.st_info);
  if (type == STT_FUNC && one.st_value != 0)
    to.functions[base + one.st_value] = name;
  if (type == STT_TLS && std::string_view(name).starts_with("_ZZ") && one.st_shndx != SHN_UNDEF)
    to.locals.push_back({name + 3, {one.st_value, one.st_size}});
}

void read(file_symbols& to, const std::string& bytes, std::uintptr_t base) {
  const auto* const head = at<ElfW(Ehdr)>(bytes, 0);
  if (head == nullptr || std::memcmp(head->e_ident, ELFMAG, SELFMAG) != 0)
    return;
  if (head->e_type == ET_EXEC)
    base = 0;
  const auto section
      = [&](std::size_t i) { return at<ElfW(Shdr)>(bytes, head->e_shoff + i * head->e_shentsize); };
  for (std::size_t i = 0; i < head->e_shnum; ++i) {
    const auto* const table = section(i);
    if (table == nullptr || table->sh_type != SHT_SYMTAB)
      continue;
    const auto* const names = section(table->sh_link);
    for (std::size_t j = 0; names != nullptr && j * sizeof(ElfW(Sym)) < table->sh_size; ++j) {
      const auto* const one = at<ElfW(Sym)>(bytes, table->sh_offset + j * sizeof(ElfW(Sym)));
      if (one != nullptr && names->sh_offset + one->st_name < bytes.size())
        keep(to, *one, &bytes[names->sh_offset + one->st_name], base);
    }
  }
}

/// Symbols of the searched files, by load address.
using known_files = std::map<std::uintptr_t, file_symbols>;

struct search {
  std::uintptr_t address;
  known_files& files;
  const file_symbols* found = nullptr;
};

/// Finds the file with a segment that contains the address.
int visit(dl_phdr_info* info, std::size_t, void* to) {
  auto& wanted = *static_cast<search*>(to);
  bool here = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const auto& part = info->dlpi_phdr[i];
    const std::uintptr_t begin = info->dlpi_addr + part.p_vaddr;
    here |= part.p_type == PT_LOAD && wanted.address >= begin
            && wanted.address < begin + part.p_memsz;
  }
  if (!here)
    return 0;
  const auto [place, is_new] = wanted.files.try_emplace(info->dlpi_addr);
  if (is_new) {
    const std::string path = *info->dlpi_name == 0 ? "/proc/self/exe" : info->dlpi_name;
    std::ifstream file(path, std::ios::binary);
    read(place->second, {std::istreambuf_iterator<char>(file), {}}, info->dlpi_addr);
    place->second.module = info->dlpi_tls_modid;
  }
  wanted.found = &place->second;
  return 1;
}

std::string plain(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : mangled;
}

kernel_symbols described(const void* kernel, const file_symbols& from) {
  kernel_symbols is;
  char address[32];
  std::snprintf(address, sizeof address, "at %p", kernel);
  is.name = address;
  is.module = from.module;
  const auto found = from.functions.find(reinterpret_cast<std::uintptr_t>(kernel));
  if (found == from.functions.end() || !found->second.starts_with("_Z"))
    return is;
  is.name = plain(found->second);
  const std::string own = found->second.substr(2) + "E";
  for (const auto& one : from.locals) {
    if (one.function.starts_with(own)) {
      is.shared.push_back(one.is);
      is.shared_bytes += one.is.bytes;
    } else if (one.is.bytes <= 1024) {
      is.of_helpers.push_back(one.is);
    }
  }
  return is;
}

}  // namespace

const kernel_symbols& symbols_of(const void* kernel) {
  // Never destroyed: streams still work while the process ends.
  static auto* const known = new std::map<const void*, kernel_symbols>;
  static auto* const files = new known_files;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (const auto found = known->find(kernel); found != known->end())
    return found->second;
  search wanted{.address = reinterpret_cast<std::uintptr_t>(kernel), .files = *files};
  ::dl_iterate_phdr(visit, &wanted);
  static const file_symbols none;
  return known->emplace(kernel, described(kernel, wanted.found ? *wanted.found : none))
      .first->second;
}

void poison_shared(const kernel_symbols& of) {
  if (of.module == 0)
    return;
  std::size_t index[2] = {of.module, 0};
  auto* const block = static_cast<std::byte*>(__tls_get_addr(index));
  for (const auto* const list : {&of.shared, &of.of_helpers})
    for (const auto& one : *list)
      std::memset(block + one.offset, 0xff, one.bytes);
}

}  // namespace troupe::emulator
