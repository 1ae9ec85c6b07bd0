#include "textflag.h"

// func install() (ok bool)
TEXT ·install(SB), NOSPLIT, $0-1
	MOVB	$0, ok+0(FP)
	MOVQ	runtime·vdsoClockgettimeSym(SB), AX
	CMPQ	AX, $0
	JEQ	done
	MOVQ	AX, ·kernel(SB)
	LEAQ	·gettime(SB), AX
	MOVQ	AX, runtime·vdsoClockgettimeSym(SB)
	MOVB	$1, ok+0(FP)
done:
	RET

// gettime is clock_gettime(clock DI, *timespec SI) as C calls it: CLOCK_REALTIME is ahead, all
// others are the kernel's.
TEXT ·gettime(SB), NOSPLIT|NOFRAME, $0
	PUSHQ	DI
	PUSHQ	SI
	SUBQ	$8, SP
	MOVQ	·kernel(SB), AX
	CALL	AX
	ADDQ	$8, SP
	POPQ	SI
	POPQ	DI
	CMPL	DI, $0
	JNE	out
	MOVQ	·ahead(SB), CX
	ADDQ	CX, 0(SI)
out:
	RET
