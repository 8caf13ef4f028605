// Makes a process see a CPU of a lower level, so that what chooses its code by CPUID chooses that level's. Linux can
// let `cpuid` fault (arch_prctl(2), ARCH_SET_CPUID): a handler then executes it, clears the bits of what the level
// lacks, and steps over it. The kernel keeps the setting for each thread; new ones inherit it.
//
// Many CPUs and virtual machines cannot do that. Libraries there are copies with `int 0xa2` in place of `cpuid`
// (patched.py): programs may not use that vector, so it is the same fault, which the same handler answers. Libraries of
// the system and NumPy have no such copies: they see the whole CPU, but choose only memcpy and NumPy's loops by it.
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace {

enum Register { EAX, EBX, ECX, EDX };

struct Hidden {
  int level;  // that has it: 2 for x86-64-v2
  std::uint32_t leaf, subleaf;
  Register place;
  std::uint32_t bits;
};

constexpr std::uint32_t all = 0xFFFFFFFF;

template <typename... Numbers>
constexpr std::uint32_t bits(Numbers... numbers) {
  return ((std::uint32_t{1} << numbers) | ...);
}

// What each level adds, and beyond it what needs the same registers.
// Intel's manual, volume 2A, CPUID; AMD's, volume 3, appendix E.
constexpr Hidden hidden[] = {
    // SSE3, PCLMULQDQ, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT, AES; SHA, GFNI; LAHF, SSE4A
    {2, 0x1, all, ECX, bits(0, 1, 9, 13, 19, 20, 23, 25)},
    {2, 0x7, 0, EBX, bits(29)},
    {2, 0x7, 0, ECX, bits(8)},
    {2, 0x80000001, all, ECX, bits(0, 6)},
    // FMA, MOVBE, XSAVE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; VAES, VPCLMULQDQ
    {3, 0x1, all, ECX, bits(12, 22, 26, 27, 28, 29)},
    {3, 0x7, 0, EBX, bits(3, 5, 8)},
    {3, 0x7, 0, ECX, bits(9, 10)},
    // SHA512, SM3, SM4, AVX-VNNI, AVX-IFMA; AVX-VNNI-INT8, AVX-NE-CONVERT, AVX-VNNI-INT16; LZCNT, XOP, FMA4
    {3, 0x7, 1, EAX, bits(0, 1, 2, 4, 23)},
    {3, 0x7, 1, EDX, bits(4, 5, 10)},
    {3, 0x80000001, all, ECX, bits(5, 11, 16)},
    // AVX-512: F, DQ, IFMA, PF, ER, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ
    {4, 0x7, 0, EBX, bits(16, 17, 21, 26, 27, 28, 30, 31)},
    {4, 0x7, 0, ECX, bits(1, 6, 11, 12, 14)},
    // 4VNNIW, 4FMAPS, VP2INTERSECT, AMX-BF16, FP16, AMX-TILE, AMX-INT8; BF16, AMX-FP16; AMX-COMPLEX, AVX10
    {4, 0x7, 0, EDX, bits(2, 3, 8, 22, 23, 24, 25)},
    {4, 0x7, 1, EAX, bits(5, 21)},
    {4, 0x7, 1, EDX, bits(8, 19)},
};

constexpr unsigned char cpuid[] = {0x0F, 0xA2}, in_place_of_cpuid[] = {0xCD, 0xA2};

struct sigaction before;
bool faulting;

bool set_cpuid(bool allowed) { return syscall(SYS_arch_prctl, ARCH_SET_CPUID, allowed ? 1 : 0) == 0; }

void answer(greg_t *registers) {
  const auto leaf = static_cast<std::uint32_t>(registers[REG_RAX]);
  const auto subleaf = static_cast<std::uint32_t>(registers[REG_RCX]);
  std::uint32_t found[4];
  if (faulting) set_cpuid(true);
  __cpuid_count(leaf, subleaf, found[EAX], found[EBX], found[ECX], found[EDX]);
  if (faulting) set_cpuid(false);
  for (const Hidden &one : hidden)
    if (one.level > LEVEL && one.leaf == leaf && (one.subleaf == all || one.subleaf == subleaf))
      found[one.place] &= ~one.bits;
  registers[REG_RAX] = found[EAX];
  registers[REG_RBX] = found[EBX];
  registers[REG_RCX] = found[ECX];
  registers[REG_RDX] = found[EDX];
}

void on_fault(int, siginfo_t *info, void *context) {
  greg_t *const registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
  // Only a general protection fault has this code: the instruction itself can be read.
  if (info->si_code == SI_KERNEL) {
    const auto *const code = reinterpret_cast<const void *>(registers[REG_RIP]);
    if (std::memcmp(code, faulting ? cpuid : in_place_of_cpuid, sizeof(cpuid)) == 0) {
      answer(registers);
      registers[REG_RIP] += sizeof(cpuid);
      return;
    }
  }
  sigaction(SIGSEGV, &before, nullptr);  // the instruction faults again
}

// Whether the instruction in the place of `cpuid` is answered here. Were it stepped over, the registers would stay.
bool is_answered() {
  unsigned highest = 0, maker = 0, ecx = 0, edx = 0;
  asm volatile("int $0xa2" : "+a"(highest), "+b"(maker), "+c"(ecx), "+d"(edx));
  return highest != 0 && maker != 0;
}

}  // namespace

// Whether this system can let `cpuid` fault.
extern "C" int can_fault() { return set_cpuid(true); }

// Of code that runs from now on, in all threads if it has `int 0xa2` in place of `cpuid` (`patched`), otherwise in the
// calling thread and those that it starts; 0 if the system cannot.
extern "C" int lower_cpu(int patched) {
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  faulting = !patched;
  return sigaction(SIGSEGV, &action, &before) == 0 && (patched ? is_answered() : set_cpuid(false));
}
